// A device: its history as a chart, and exports, whose files are loaded when a button asks for one.
"use strict";
(() => {
  const { load, chart } = roofcal;
  const ENDINGS = { torchao: "py", calculon: "json", aiconfigurator: "yaml", "llm-analysis": "json", genz: "py",
                    csv: "csv", json: "json", yaml: "yaml", markdown: "md", latex: "tex" };
  const texts = async (publication) => JSON.parse(await unpacked(await load(`exports/${publication}`)));
  document.querySelectorAll(".exports button").forEach((button) => {
    button.addEventListener("click", async () => {
      const publication = button.closest(".exports").dataset.publication, format = button.dataset.format;
      const file = new Blob([(await texts(publication))[format]], { type: "text/plain" });
      const name = `${publication.split("/")[0]}.${format}.${ENDINGS[format] || "txt"}`;
      save(file, name);
    });
  });

  // The history of a device that was measured in several environments, the oldest first.
  const place = document.getElementById("history-chart");
  if (place) load("index").then(({ sides, colours, markers }) => {
    const own = Object.entries(sides).filter(([key, { device }]) => key.startsWith("measured:") && device === place.dataset.device)
      .map(([, side]) => side).reverse();
    const rows = own.flatMap(({ environment, date, rates }) => Object.entries(rates)
      .filter(([key]) => key.startsWith("rate."))
      .map(([key, [rate, low, high]]) => ({ environment, measured: date, recipe: key.slice(5), rate, low, high,
        colour: colours[key.slice(5)], marker: markers.A, dashed: 0 })));
    const legend = [...new Set(rows.map(({ recipe }) => recipe))].map((recipe) =>
      ({ field: "recipe", value: recipe, colour: colours[recipe], path: markers.A }));
    return chart(place, "history", "Settled rates by environment.", { points: rows }, legend);
  });
})();
