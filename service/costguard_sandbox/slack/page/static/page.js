"use strict";
// The server renders and escapes; this file swaps panes, and sends clicks and texts.

const place = new URLSearchParams(location.hash.slice(1));
const state = {
  viewer: place.get("viewer") || "",
  channel: place.get("channel") || "",
  thread: place.get("thread") || "",
};
let version = "";
let busy = false;
let asks = 0;
let waiting = 0;
const byId = (id) => document.getElementById(id);
const readKey = (channel) => `read/${state.viewer}/${channel}`;

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ user: state.viewer, channel: state.channel, ...body }),
  });
  version = "";
  await refresh();
  return answer.ok;
}

function swap(pane, html, what = "") {
  if (pane.dataset.html === html) return;
  const same = pane.dataset.what === what;
  pane.dataset.what = what;
  const list = pane.querySelector(".messages");
  const atEnd = !same || !list || list.scrollHeight - list.scrollTop - list.clientHeight < 60;
  const top = list ? list.scrollTop : 0;
  const field = pane.querySelector(".composer input");
  const typed = field && same ? [field.value, document.activeElement === field, field.selectionStart] : null;
  pane.dataset.html = html;
  pane.innerHTML = html;
  const next = pane.querySelector(".messages");
  if (next) next.scrollTop = atEnd ? next.scrollHeight : top;
  const again = pane.querySelector(".composer input");
  if (typed && again) {
    again.value = typed[0];
    if (typed[1]) {
      again.focus();
      again.setSelectionRange(typed[2], typed[2]);
    }
  }
}

function showModal(html) {
  const modal = byId("modal");
  if (modal.dataset.html === html) return;
  const key = (field) => `${field.dataset.block} ${field.dataset.input}`;
  const typed = new Map([...modal.querySelectorAll("[data-input]")].map((field) => [key(field), field.value]));
  modal.dataset.html = html;
  modal.innerHTML = html;
  for (const field of modal.querySelectorAll("[data-input]")) {
    if (typed.has(key(field))) field.value = typed.get(key(field));
  }
  if (html && !modal.open) modal.showModal();
  if (!html && modal.open) modal.close();
}

function markUnread() {
  for (const button of document.querySelectorAll("[data-channel]")) {
    const { channel, latest } = button.dataset;
    if (channel === state.channel) localStorage.setItem(readKey(channel), latest);
    button.classList.toggle("unread", latest > (localStorage.getItem(readKey(channel)) || "0"));
  }
}

async function refresh() {
  const asked = new URLSearchParams({ ...state, version });
  const turn = ++asks;
  let seen;
  waiting += 1;
  try {
    seen = await (await fetch(`/slack/state?${asked}`)).json();
  } catch {
    byId("offline").hidden = false;
    return;
  } finally {
    waiting -= 1;
  }
  byId("offline").hidden = true;
  if (turn !== asks) return; // the person has moved on since this request
  version = seen.version;
  if (!("main" in seen)) return;
  if (state.channel && state.channel !== seen.channel) state.thread = "";
  state.viewer = seen.viewer;
  state.channel = seen.channel;
  if (document.activeElement?.tagName !== "SELECT") swap(byId("sidebar"), seen.sidebar);
  swap(byId("main"), seen.main, seen.channel);
  byId("thread").hidden = !seen.thread;
  swap(byId("thread"), seen.thread, state.thread);
  showModal(seen.modal);
  markUnread();
  history.replaceState(null, "", `#${new URLSearchParams(state)}`);
}

function go(change) {
  Object.assign(state, change);
  version = "";
  document.activeElement?.blur();
  refresh();
}

function confirmed(given) {
  if (!given) return Promise.resolve(true);
  const asked = JSON.parse(given);
  const dialog = byId("confirm");
  dialog.querySelector("h2").innerHTML = asked.title;
  dialog.querySelector("p").innerHTML = asked.text;
  const [no, yes] = dialog.querySelectorAll("button");
  no.innerHTML = asked.deny;
  yes.innerHTML = asked.confirm;
  yes.className = `button ${asked.style}`;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    no.onclick = () => dialog.close("no");
    yes.onclick = () => dialog.close("yes");
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}

async function use(element, value) {
  const { action, block, confirm, url } = element.dataset;
  const ts = element.closest("[data-ts]")?.dataset.ts;
  if (!ts || busy || !(await confirmed(confirm))) return;
  if (url && /^https?:/.test(url)) window.open(url, "_blank", "noopener");
  busy = true;
  element.classList.add("waiting");
  try {
    await post("/sandbox/slack/click", { ts, action_id: action, block_id: block, value });
  } finally {
    busy = false;
    element.classList.remove("waiting");
  }
}

function values(form) {
  const found = {};
  for (const field of form.querySelectorAll("[data-input]")) {
    const { input, block, type } = field.dataset;
    const option = field.tagName === "SELECT" ? field.selectedOptions[0] : null;
    const value = option
      ? { type, selected_option: { value: option.value, text: { type: "plain_text", text: option.text } } }
      : { type, value: field.value || null };
    found[block] = { ...found[block], [input]: value };
  }
  return found;
}

document.addEventListener("click", (event) => {
  const at = (selector) => event.target.closest(selector);
  if (at("[data-channel]")) go({ channel: at("[data-channel]").dataset.channel, thread: "" });
  else if (at("[data-thread]")) go({ thread: at("[data-thread]").dataset.thread });
  else if (at("#close-thread")) go({ thread: "" });
  else if (at("#close-modal")) post("/slack/close", {});
  else if (at("button[data-action]")) use(at("button[data-action]"));
});
document.addEventListener("change", (event) => {
  if (event.target.id === "viewer") go({ viewer: event.target.value, thread: "" });
  else if (event.target.matches("select[data-action]")) use(event.target, event.target.value);
});
document.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.id === "modal-form") {
    post("/slack/submit", { values: values(event.target) });
    return;
  }
  const field = event.target.elements.text;
  const text = field?.value.trim();
  if (!text) return;
  field.value = "";
  post("/slack/write", { text, thread: event.target.closest("#thread") ? state.thread : "" });
});
byId("modal").addEventListener("cancel", () => post("/slack/close", {}));

refresh();
setInterval(() => waiting || refresh(), 1000);
