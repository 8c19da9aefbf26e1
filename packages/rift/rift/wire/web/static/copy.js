// Buttons that copy the text beside them. Without JavaScript they are not shown.
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  const word = button.querySelector("span");
  const before = word.textContent;
  let back = 0;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      word.textContent = "Copied";
    } catch {
      word.textContent = "Not copied";
    }
    clearTimeout(back);
    back = setTimeout(() => { word.textContent = before; }, 2000);
  });
}
