// Buttons that copy the text beside them; without this script they are not shown. One listener, so that buttons which
// come later (live.js) work too.
if (navigator.clipboard) {
  document.documentElement.classList.add("script");
}

const before = new WeakMap(); // what each button says at rest

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const word = button.querySelector("span");
  const told = button.parentElement.querySelector("[role=status]");
  if (!before.has(word)) before.set(word, word.textContent);
  try {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    word.textContent = told.textContent = "Copied";
  } catch {
    word.textContent = told.textContent = "Not copied";
  }
  setTimeout(() => {
    word.textContent = before.get(word);
    told.textContent = "";
  }, 2000);
});
