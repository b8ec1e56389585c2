"use strict";
// Without this script, a page of few tables shows the details of every table, and a page of many tables the overview.
(() => {
  const text = new Intl.Collator("en", { numeric: true });
  const key = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();

  const labelled = (root) => {
    for (const table of root.querySelectorAll("table")) {
      const labels = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
      for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, n) => { cell.dataset.label = labels[n]; });
    }
  };
  labelled(document);

  const sortable = (root) => {
    for (const table of root.querySelectorAll("table.sortable")) {
      const heads = [...table.tHead.rows[0].cells];
      heads.forEach((head, column) => {
        head.querySelector("button").addEventListener("click", () => {
          const down = head.getAttribute("aria-sort") === "ascending" ||
            (head.classList.contains("n") && !head.hasAttribute("aria-sort"));
          const rows = [...table.tBodies[0].rows];
          rows.sort((a, b) => text.compare(key(a, column), key(b, column)) * (down ? -1 : 1));
          if (head.classList.contains("n")) {
            rows.sort((a, b) => (Number(key(a, column)) - Number(key(b, column))) * (down ? -1 : 1));
          }
          for (const other of heads) other.removeAttribute("aria-sort");
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          table.tBodies[0].append(...rows);
          table.dispatchEvent(new Event("sorted"));
        });
      });
    }
  };
  sortable(document);

  // Two maps are drawn over each other. The first map is visible left of the position of the slider, the second right of it.
  const slidable = (root) => {
    for (const figure of root.querySelectorAll("figure.compare")) {
      const label = figure.querySelector(".slide");
      const slider = label.querySelector("input");
      const move = () => {
        figure.style.setProperty("--at", slider.value + "%");
        slider.setAttribute("aria-valuetext", `before on the left ${slider.value}%, after on the rest`);
      };
      slider.addEventListener("input", move);
      figure.classList.add("sliding");
      label.hidden = false;
      move();
    }
  };
  slidable(document);

  // On the page of many tables, details are compressed in chunks. The document has the details of one table at a time.
  const details = document.getElementById("details");
  const chunks = [...document.querySelectorAll("script.chunk")];
  const expanded = new Map();
  const expand = async (chunk) => {
    if (!expanded.has(chunk)) {
      const bytes = Uint8Array.from(atob(chunk.textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      expanded.set(chunk, new DOMParser().parseFromString(await new Response(stream).text(), "text/html"));
    }
    return expanded.get(chunk);
  };
  let wanted = "";
  const load = async (id) => {
    const number = Number(id.slice("table-".length));
    const chunk = chunks.findLast((c) => Number(c.dataset.first) <= number);
    const section = chunk && (await expand(chunk)).getElementById(id);
    if (!section || id !== wanted) return null;
    const copy = document.importNode(section, true);
    labelled(copy);
    sortable(copy);
    slidable(copy);
    details.replaceChildren(copy);
    return copy;
  };

  const sections = [...document.querySelectorAll("section.table")];
  const links = [...document.querySelectorAll("#overview tbody a")];
  const all = document.getElementById("all");
  const show = (id) => {
    for (const section of sections) section.hidden = id !== "" && section.id !== id;
    for (const link of links) {
      const current = link.hash === "#" + id;
      link.closest("tr").classList.toggle("current", current);
      if (current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
    all.hidden = id === "" || sections.length < 2;
  };
  const follow = async (focus) => {
    const id = location.hash.slice(1);
    if (!links.some((link) => link.hash === "#" + id)) return;
    wanted = id;
    const section = chunks.length ? await load(id) : sections.find((s) => s.id === id);
    if (!section) return;
    show(id);
    if (focus) {
      section.scrollIntoView();
      section.focus();
    }
  };
  addEventListener("hashchange", () => follow(true));
  all.addEventListener("click", () => { history.replaceState(null, "", "#tables"); show(""); });
  if (sections.length > 1) {
    const open = document.querySelector("#overview .badge:not(.unchanged)");
    const first = open ? open.closest("tr").querySelector("a") : links[0];
    show(first.hash.slice(1));
  }
  follow(chunks.length > 0);

  // The search, the filter and the treemap of the page of many tables.
  const filter = document.getElementById("filter");
  if (!filter) return;
  const search = document.getElementById("search");
  const state = document.getElementById("state");
  const more = document.getElementById("more");
  const shown = document.getElementById("shown");
  const body = document.querySelector("#overview tbody");
  const number = new Map(links.map((link, n) => [link.closest("tr"), n]));
  const short = Number(filter.dataset.rows);
  let limit = short;
  const tiles = [...document.querySelectorAll(".treemap path")];
  filter.hidden = false;
  const apply = () => {
    const word = search.value.trim().toLowerCase();
    let count = 0;
    for (const row of body.rows) {
      const n = number.get(row);
      const fits = links[n].textContent.toLowerCase().includes(word) &&
        (state.value === "" || row.cells[1].textContent === state.value);
      row.classList.toggle("later", !fits || count >= limit);
      tiles[n].classList.toggle("out", !fits);
      count += fits;
    }
    const of = `${count.toLocaleString("en")} of ${links.length.toLocaleString("en")} tables`;
    shown.value = count > limit ? `${of}, ${limit.toLocaleString("en")} shown` : of;
    more.hidden = count <= limit;
  };
  filter.addEventListener("input", () => { limit = short; apply(); });
  more.addEventListener("click", () => { limit = Infinity; apply(); });
  document.getElementById("overview").addEventListener("sorted", apply);
  filter.addEventListener("submit", (event) => event.preventDefault());
  tiles.forEach((tile, n) => tile.addEventListener("click", () => { location.hash = links[n].hash; }));
  apply();  // a browser may keep the text of the search when the page is loaded again
})();
