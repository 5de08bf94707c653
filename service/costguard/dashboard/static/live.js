// Keeps the page true without reloading it: times in the viewer's zone, dollars that count on at the exact
// rate, and fresh contents put in place piece by piece, so that focus, scroll and selection stay.
const speed = Number(document.body.dataset.speed);
const main = document.getElementById("main");
const link = document.getElementById("link");
const quiet = matchMedia("(prefers-reduced-motion: reduce)");
const HOUR_MS = 3_600_000n;
let receivedAt = performance.now();

const two = { hour: "2-digit", minute: "2-digit", hour12: false };
const styles = {
  short: new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", ...two }),
  clock: new Intl.DateTimeFormat("en-GB", { ...two, second: "2-digit" }),
};
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

function localise(root) {
  for (const time of root.querySelectorAll("time[data-style]")) {
    const moment = new Date(time.dateTime);
    time.textContent = styles[time.dataset.style].format(moment);
    time.title = `${exact.format(moment)} (${time.title})`;
  }
}

// Whether the reader has marked text in it, which a change would undo.
function isMarked(node) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(node, true);
}

function write(text, value) {
  if (text && text.data !== value && !isMarked(text)) text.data = value;
}

// The same digits as the server writes: cut off after a hundredth of a cent.
function count(root) {
  const elapsed = BigInt(Math.max(0, Math.round((performance.now() - receivedAt) * speed)));
  for (const money of root.querySelectorAll(".money")) {
    const rate = BigInt(money.dataset.rate);
    if (rate === 0n) continue;
    const nanos = BigInt(money.dataset.nanos) + (rate * elapsed) / HOUR_MS;
    const digits = String((nanos % 1_000_000_000n) / 100_000n).padStart(4, "0");
    const dollars = (nanos / 1_000_000_000n).toLocaleString("en-US");
    write(money.firstChild, `$${dollars}.${digits.slice(0, 2)}`);
    write(money.lastElementChild.firstChild, digits.slice(2));
  }
}

function sameKind(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

// Makes `old` like `fresh`, keeping every node that still has its place.
function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) return write(old, fresh.data);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const byId = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = wanted.id ? byId.get(wanted.id) : undefined;
    if (known) {
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, wanted);
    } else if (place && sameKind(place, wanted)) {
      const next = place.nextSibling;
      morph(place, wanted);
      place = next;
    } else {
      old.insertBefore(document.importNode(wanted, true), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(15_000) });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  receivedAt = performance.now();
  localise(fresh);
  for (const part of document.querySelectorAll("[data-live]")) {
    const wanted = fresh.getElementById(part.id);
    if (wanted) morph(part, wanted);
  }
  count(main);
}

async function keepFresh(every) {
  for (;;) {
    await new Promise((done) => setTimeout(done, every));
    if (document.hidden) continue;
    try {
      await refresh();
      if (link.textContent) link.textContent = "";
    } catch {
      const said = "No answer: what is shown is old.";
      if (link.textContent !== said) link.textContent = said;
    }
  }
}

localise(document);
document.getElementById("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (main.dataset.refresh) {
  let last = 0;
  const tick = (moment) => {
    if (moment - last >= (quiet.matches ? 1000 : 100) && !link.textContent) {
      last = moment;
      count(main);
    }
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  document.addEventListener("visibilitychange", () => document.hidden || refresh().catch(() => {}));
  keepFresh(Number(main.dataset.refresh));
}
