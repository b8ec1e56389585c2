"use strict";
// Without this script the page shows every table, in the order of their names.
(() => {
  const text = new Intl.Collator("en", { numeric: true });
  const key = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();

  for (const table of document.querySelectorAll("table.sortable")) {
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
      });
    });
  }

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
  const follow = (focus) => {
    const id = location.hash.slice(1);
    const section = sections.find((s) => s.id === id);
    if (!section) return;
    show(id);
    if (focus) section.focus();
  };
  addEventListener("hashchange", () => follow(true));
  all.addEventListener("click", () => { history.replaceState(null, "", "#tables"); show(""); });
  if (sections.length > 1) {
    const open = document.querySelector("#overview .badge:not(.unchanged)");
    const first = open ? open.closest("tr").querySelector("a") : links[0];
    show(first.hash.slice(1));
  }
  follow(false);
})();
