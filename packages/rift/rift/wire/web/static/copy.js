// Buttons that copy the text beside them; without this script they are not shown. One listener, so that buttons which
// come later (live.js) work too.
if (navigator.clipboard) {
  document.documentElement.classList.add("script");
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const word = button.querySelector("span");
  const before = word.dataset.before ?? word.textContent;
  word.dataset.before = before;
  try {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    word.textContent = "Copied";
  } catch {
    word.textContent = "Not copied";
  }
  setTimeout(() => { word.textContent = before; }, 2000);
});
