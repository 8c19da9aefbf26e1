// Keeps a part of a page as it is now. The part says where its events come from (data-live) and which element says in
// words how that goes (data-word). Each event carries the part's whole HTML, escaped by the server; what stands there is
// changed only where it differs, so that focus, selection, scrolling and what is folded open stay.
//
// Without JavaScript the page is as it was when it was loaded, with a link to load it again.

const AGAIN_LEAST = 3000;
const AGAIN_MOST = 30000;
const SAY_AFTER = 1500; // an interruption shorter than this is not worth a word

for (const part of document.querySelectorAll("[data-live]")) {
  keep(part, document.getElementById(part.dataset.word));
}

function keep(part, word) {
  let source = null;
  let later = 0;
  let saying = 0;
  let wait = AGAIN_LEAST;
  let had = "";
  let over = false;

  function say(text, link) {
    clearTimeout(saying);
    if (word.textContent === text) return;
    word.textContent = text;
    if (link) {
      word.append(" ");
      word.append(Object.assign(document.createElement("a"), { href: link, textContent: "Sign in" }));
    }
  }

  function soon(text) {
    clearTimeout(saying);
    saying = setTimeout(() => say(text), SAY_AFTER);
  }

  function end() {
    over = true;
    stop();
    say("You are signed out.", `/sign-in?next=${encodeURIComponent(location.pathname)}`);
  }

  function stop() {
    clearTimeout(later);
    clearTimeout(saying);
    source?.close();
    source = null;
  }

  function start() {
    stop();
    if (over || document.hidden) return;
    source = new EventSource(part.dataset.live);
    source.addEventListener("open", () => { wait = AGAIN_LEAST; say("Live"); });
    source.addEventListener("shown", (event) => {
      if (event.lastEventId === had) return;
      had = event.lastEventId;
      show(part, event.data);
    });
    source.addEventListener("over", end);
    source.addEventListener("error", () => {
      soon("Reconnecting…");
      if (source?.readyState === EventSource.CLOSED) ask(); // else the browser opens it again by itself
    });
  }

  // The server answered something else than events: why?
  async function ask() {
    stop();
    const asking = new AbortController();
    try {
      const answer = await fetch(part.dataset.live, { redirect: "manual", signal: asking.signal });
      if (answer.type === "opaqueredirect") return end();
      if (answer.status === 429) say("Not live: too many pages of yours are. Refresh to see what changed.");
      else soon("Reconnecting…");
    } catch {
      soon("Reconnecting…");
    } finally {
      asking.abort();
    }
    later = setTimeout(start, wait);
    wait = Math.min(wait * 2, AGAIN_MOST);
  }

  document.addEventListener("visibilitychange", start);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => { if (event.persisted) start(); });
  start();
}

function show(part, html) {
  const before = document.activeElement;
  const made = new DOMParser().parseFromString(html, "text/html");
  blend(part, made.body);
  if (before !== document.activeElement && !before.isConnected) part.focus({ preventScroll: true });
}

// Make the children of `here` those of `there`: elements with the same id, else of the same kind in the same place, stay.
function blend(here, there) {
  const named = new Set([...there.children].map((one) => one.id));
  for (const one of [...here.children]) {
    if (one.id && !named.has(one.id)) one.remove(); // first: what moves up in its place would lose the focus
  }
  let at = here.firstChild;
  for (const wanted of [...there.childNodes]) {
    const same = stays(here, at, wanted);
    if (!same) {
      here.insertBefore(document.importNode(wanted, true), at);
      continue;
    }
    while (same !== at && at && !at.id) {
      const gone = at; // what has no name makes room: to move what is at hand would take the focus from it
      at = at.nextSibling;
      gone.remove();
    }
    if (same === at) at = at.nextSibling;
    else here.insertBefore(same, at);
    if (same.nodeType !== Node.ELEMENT_NODE) {
      if (same.data !== wanted.data) same.data = wanted.data;
    } else if (!same.isEqualNode(wanted)) {
      attributes(same, wanted);
      blend(same, wanted);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function stays(here, at, wanted) {
  if (wanted.id) {
    const known = document.getElementById(wanted.id);
    return known?.parentNode === here && known.nodeName === wanted.nodeName ? known : null;
  }
  return at && at.nodeName === wanted.nodeName && !at.id ? at : null;
}

// What a person has folded open stays so.
function attributes(same, wanted) {
  for (const { name } of [...same.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") same.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (same.getAttribute(name) !== value && name !== "open") same.setAttribute(name, value);
  }
}
