// Drawers that draw when they are opened, tabs of figures, links into both, and the contents.
"use strict";
(() => {
  // Draws the tables that can be seen in a part of the page and are packed; done when they are drawn.
  const drawSeen = (part) => Promise.all([...part.querySelectorAll(".grid")]
    .filter((grid) => grid.checkVisibility()).map((grid) => tables.draw(grid)));

  // One figure of a group is shown; a list of tabs chooses it, with arrow keys too.
  document.querySelectorAll(".tabs").forEach((group, number) => {
    const figures = [...group.children];
    const names = figures.map((figure) => figure.dataset.tab);
    const bar = element("div", { className: "tablist" });
    bar.setAttribute("role", "tablist");
    bar.setAttribute("aria-label", "op");
    const buttons = figures.map((figure, place) => {
      const repeated = names.indexOf(names[place]) !== names.lastIndexOf(names[place]);
      const label = repeated ? figure.querySelector("h5").firstChild.textContent.trim() : names[place];
      const button = element("button", { type: "button", id: `tab-${number}-${place}`, textContent: label });
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", figure.id);
      figure.setAttribute("role", "tabpanel");
      figure.setAttribute("aria-labelledby", button.id);
      return button;
    });
    function choose(place) {
      buttons.forEach((button, other) => {
        button.setAttribute("aria-selected", String(other === place));
        button.tabIndex = other === place ? 0 : -1;
        figures[other].hidden = other !== place;
      });
      return drawSeen(group);
    }
    buttons.forEach((button, place) => {
      button.addEventListener("click", () => choose(place));
      button.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const to = (place + step + buttons.length) % buttons.length;
        choose(to);
        buttons[to].focus();
      });
    });
    figures.forEach((figure, place) => { figure.chooseTab = () => choose(place); });
    bar.append(...buttons);
    group.prepend(bar);
    choose(0);
  });

  document.addEventListener("toggle", (event) => {
    if (event.target.open && event.target.tagName === "DETAILS") drawSeen(event.target);
  }, true);

  // "#<id>" opens the drawers around a part; "#table=<id>&filter=m%20%3D%2016" filters a table too.
  async function follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    let id = asked.get("table") || location.hash.slice(1);
    try { if (!asked.get("table")) id = decodeURIComponent(id); } catch { return; }  // "#%" names no part
    const part = document.getElementById(id);
    if (!part) return;
    for (let at = part; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
      if (at.chooseTab) await at.chooseTab();
    }
    await drawSeen(part.closest("details") || part);
    if (asked.has("filter") && part.setFilter) part.setFilter(asked.get("filter"));
    part.scrollIntoView();
  }
  addEventListener("hashchange", follow);
  follow();

  // Contents: closed on a narrow screen until asked for; the section in view is marked.
  const contents = document.getElementById("contents");
  const narrow = matchMedia("(max-width: 1079px)");
  const fold = () => { contents.open = !narrow.matches; };
  fold();
  narrow.addEventListener("change", fold);
  const links = new Map([...contents.querySelectorAll("a[href^='#']")].map((a) => [a.hash.slice(1), a]));
  contents.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest("a")) contents.open = false;
  });
  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    });
  }, { rootMargin: "-10% 0px -80% 0px" });
  links.forEach((_, id) => { const part = document.getElementById(id); if (part) seen.observe(part); });
})();
