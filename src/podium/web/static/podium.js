// Draws the page anew when the journal grows, at most once a second.
let due = null;

async function redraw() {
  due = null;
  const answer = await fetch("/", { credentials: "same-origin" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.querySelector("main").replaceWith(page.querySelector("main"));
}

const events = new EventSource("/api/events");
events.addEventListener("journal", () => { due ??= setTimeout(redraw, 1000); });
