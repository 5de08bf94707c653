// <stacked-chart table="ID">: the table's figures as stacked bars, redrawn when the table or the theme changes.
// All figures come from the table: cells hold nano-dollars, column heads their colour, and tooltips show its text.
const dark = matchMedia("(prefers-color-scheme: dark)");
const DAY_MS = 86_400_000;

const brief = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const round = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 2, minimumFractionDigits: 0 });

function read(table) {
  const heads = [...table.tHead.rows[0].cells].slice(1, -1);
  const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.day, [...row.cells]]));
  const days = [];
  const last = Date.parse(table.dataset.last);
  for (let day = Date.parse(table.dataset.first); day <= last; day += DAY_MS) days.push(new Date(day).toISOString().slice(0, 10));
  return { heads, rows, days };
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function options({ heads, rows, days }) {
  const soft = colour("soft");
  const root = getComputedStyle(document.documentElement);
  const font = { family: root.fontFamily, size: 0.8 * parseFloat(root.fontSize) };
  const cell = (item, place) => rows.get(days[item.dataIndex])?.at(place)?.textContent.trim();
  return {
    animation: false,
    maintainAspectRatio: false,
    interaction: { mode: "index", intersect: false },
    scales: {
      x: { stacked: true, grid: { display: false }, border: { color: colour("line") }, ticks: { color: soft, font, maxRotation: 0, autoSkipPadding: 24 } },
      y: { stacked: true, grid: { color: colour("line") }, border: { display: false }, ticks: { color: soft, font, maxTicksLimit: 6, callback: (value) => round.format(value) } },
    },
    plugins: {
      legend: { display: false },
      tooltip: {
        filter: (item) => item.raw > 0,
        itemSort: (one, other) => other.datasetIndex - one.datasetIndex,
        backgroundColor: colour("card"), borderColor: colour("line"), borderWidth: 1, cornerRadius: 8, padding: 12, boxPadding: 6,
        titleColor: colour("ink"), bodyColor: colour("ink"), footerColor: colour("ink"), titleFont: font, bodyFont: font, footerFont: font,
        callbacks: {
          title: ([item]) => item && (cell(item, 0) ?? item.label),
          label: (item) => ` ${heads[item.datasetIndex].textContent.trim()}  ${cell(item, item.datasetIndex + 1)}`,
          footer: ([item]) => item && heads.length > 1 && `Total  ${cell(item, -1)}`,
        },
      },
    },
  };
}

class StackedChart extends HTMLElement {
  connectedCallback() {
    queueMicrotask(() => this.isConnected && this.start()); // a swap may bring the table right after this
  }

  start() {
    const table = document.getElementById(this.getAttribute("table"));
    this.canvas = this.appendChild(document.createElement("canvas"));
    this.canvas.setAttribute("aria-hidden", "true"); // screen readers use the table
    this.changes = new MutationObserver(() => this.draw(table));
    this.changes.observe(table, { subtree: true, childList: true, characterData: true, attributes: true });
    this.theme = () => this.draw(table);
    dark.addEventListener("change", this.theme);
    this.draw(table);
  }

  disconnectedCallback() {
    this.changes?.disconnect();
    dark.removeEventListener("change", this.theme);
    this.chart?.destroy();
    this.canvas?.remove();
  }

  draw(table) {
    const found = read(table);
    const datasets = found.heads.map((head, place) => ({
      label: head.textContent.trim(),
      data: found.days.map((day) => Number(found.rows.get(day)?.[place + 1].dataset.nanos ?? 0) / 1e9),
      backgroundColor: colour(head.dataset.series),
      hoverBackgroundColor: colour(head.dataset.series),
      maxBarThickness: 44,
      categoryPercentage: found.days.length > 120 ? 1 : 0.82,
      barPercentage: 1,
    }));
    const data = { labels: found.days.map((day) => brief.format(new Date(day))), datasets };
    this.chart?.destroy();
    this.chart = new Chart(this.canvas, { type: "bar", data, options: options(found) });
  }
}

customElements.define("stacked-chart", StackedChart);
