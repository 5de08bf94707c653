// Keeps the page up to date without reloading it: times in the viewer's zone, amounts that grow at the exact
// rate, and, by htmx, fresh contents put in place so that focus, scroll and selection stay.
const speed = Number(document.body.dataset.speed);
const main = () => document.getElementById("main");
const link = document.getElementById("link");
const quiet = matchMedia("(prefers-reduced-motion: reduce)");
const HOUR_MS = 3_600_000n;

const two = { hour: "2-digit", minute: "2-digit", hour12: false };
const styles = {
  short: new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", ...two }),
  clock: new Intl.DateTimeFormat("en-GB", { ...two, second: "2-digit" }),
  week: new Intl.DateTimeFormat("en-GB", { weekday: "short", ...two }),
  day: new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", year: "numeric" }),
};
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

// Shows times in the viewer's zone, and lets amounts grow from now.
function adopt(root) {
  for (const money of root.querySelectorAll(".money")) money.dataset.at = performance.now();
  for (const time of root.querySelectorAll("time[data-style]")) {
    const moment = new Date(time.dateTime);
    time.textContent = styles[time.dataset.style].format(moment);
    time.title = `${exact.format(moment)} (${time.title})`;
    time.removeAttribute("data-style"); // so that none is converted twice
  }
}

// Whether the reader has selected text in it, which a change would undo.
function isMarked(node) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(node, true);
}

function write(text, value) {
  if (text && text.data !== value && !isMarked(text)) text.data = value;
}

// The same digits as the server writes: cut off after a hundredth of a cent.
function count(root) {
  for (const money of root.querySelectorAll(".money")) {
    const rate = BigInt(money.dataset.rate);
    if (rate === 0n) continue;
    const elapsed = BigInt(Math.max(0, Math.round((performance.now() - Number(money.dataset.at)) * speed)));
    const nanos = BigInt(money.dataset.nanos) + (rate * elapsed) / HOUR_MS;
    const digits = String((nanos % 1_000_000_000n) / 100_000n).padStart(4, "0");
    const dollars = (nanos / 1_000_000_000n).toLocaleString("en-US");
    write(money.firstChild, `$${dollars}.${digits.slice(0, 2)}`);
    write(money.lastElementChild.firstChild, digits.slice(2));
  }
}

function say(words) {
  if (link.textContent !== words) link.textContent = words;
}

// In the form that waits for an answer, else in the head of the page.
function showError(words) {
  const place = document.querySelector("dialog[open] [role=alert], form.htmx-request [role=alert]");
  if (place) place.textContent = words;
  else say(words);
}

const isPoll = (ctx) => ctx?.sourceElement === main();

document.addEventListener("htmx:config:request", (event) => {
  const { ctx } = event.detail;
  const { form, method, body } = ctx.request;
  if (form && method === "GET") for (const [name, value] of [...body]) if (value === "") body.delete(name);
  // Nothing moves behind an open dialog, and a hidden page is not refreshed.
  if (isPoll(ctx) && (document.hidden || document.querySelector("dialog[open]"))) event.preventDefault();
});

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx, tasks } = event.detail;
  if (isPoll(ctx)) {
    if (ctx.response.raw.redirected) location.reload(); // the session has ended
    if (ctx.response.raw.redirected || !ctx.response.raw.ok || document.querySelector("dialog[open]")) {
      if (!ctx.response.raw.ok) say("No connection: this page is out of date.");
      event.preventDefault();
      return;
    }
    say("");
  }
  if (ctx.response.headers.get("content-type")?.startsWith("application/problem+json")) {
    const { detail, next } = JSON.parse(ctx.text);
    showError(`${detail} ${next}`);
    event.preventDefault();
  }
  for (const task of tasks) adopt(task.fragment);
});

document.addEventListener("htmx:error", (event) => {
  if (isPoll(event.detail.ctx)) say("No connection: this page is out of date.");
  else if (event.detail.ctx) showError("No answer from the server. Reload the page to see the current state.");
});

document.addEventListener("visibilitychange", () => document.hidden || htmx.trigger(main(), "seen"));

htmx.registerExtension("keep-marked", {
  htmx_before_morph_node: (_element, { oldNode }) => oldNode.childElementCount > 0 || !isMarked(oldNode),
});

adopt(document);
document.getElementById("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (document.querySelector(".money")) {
  let last = 0;
  const tick = (moment) => {
    if (moment - last >= (quiet.matches ? 1000 : 100) && !link.textContent) {
      last = moment;
      count(document);
    }
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}
