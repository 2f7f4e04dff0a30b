// A saved page: tables that can be filtered, elements that can be followed, and the player of a story.
(() => {
  const PACE = 1800; // milliseconds

  for (const filter of document.querySelectorAll(".filter")) {
    const rows = [...filter.nextElementSibling.querySelectorAll("tbody tr")];
    const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent.toLowerCase()));
    const kept = filter.querySelector(".kept"), box = filter.querySelector("input");
    const count = (number) => number.toLocaleString("en");
    box.addEventListener("input", () => {
      const wanted = box.value.trim().toLowerCase();
      let shown = 0;
      rows.forEach((row, place) => {
        row.hidden = !texts[place].some((text) => text.includes(wanted));
        shown += !row.hidden;
      });
      kept.textContent = wanted ? `${count(shown)} of ${count(rows.length)} rows` : `all ${count(rows.length)} rows`;
    });
  }

  // A picture that is wider than the page can be scrolled with the keyboard; others are no stop on its way.
  const wide = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const stage of document.querySelectorAll(".stage")) wide.observe(stage);

  for (const section of document.querySelectorAll("section")) {
    const figure = section.querySelector("[data-picture]");
    if (!figure) continue;
    const pick = section.querySelector(".pick"), found = section.querySelector(".found");
    const pictures = [figure.querySelector("svg")];
    let pinned = [], shown = [];

    const show = (span) => {
      shown = span;
      // The mesh beside all steps at once says nothing of any one of them.
      for (const svg of pictures) light(svg, span.length ? (one) => meets(one, span) : null, svg === pictures.at(-1));
    };
    const pin = (span, text) => {
      pinned = span;
      show(span);
      pick.value = text;
      const ranks = ranksOf(cellsOf(pictures.at(-1)).filter((cell) => meets(spanOf(cell), span)));
      const where = pictures.length > 1 ? " in this step" : "";
      found.textContent = !span.length ? "" : ranks.length ? `on rank${ranks.length > 1 ? "s" : ""} ${ranks.join(", ")}${where}` : `on no rank that is drawn${where}`;
    };
    const listen = (svg) => {
      svg.addEventListener("pointerover", (event) => {
        const cell = event.target.closest(".cell");
        if (cell) tell(cell);
        show(cell?.dataset.span ? spanOf(cell) : pinned);
      });
      svg.addEventListener("pointerleave", () => show(pinned));
      svg.addEventListener("click", (event) => {
        const cell = event.target.closest(".cell");
        const span = cell && spanOf(cell).join() !== pinned.join() ? spanOf(cell) : [];
        pin(span, spanName(span).replace(/[()]/g, ""));
      });
    };
    listen(pictures[0]);
    pick.addEventListener("input", () => {
      const parts = pick.value.split(",").map((part) => part.trim().match(/^(\d+)(?:-(\d+))?$/));
      const span = parts.every(Boolean) ? parts.flatMap(([, first, last]) => [+first, +(last ?? first) + 1]) : [];
      pin(span, pick.value);
      const wanted = Math.max(0, ...cellsOf(pictures[0]).map((cell) => spanOf(cell).length)) / 2;
      if (!span.length && pick.value.trim()) found.textContent = "an index is a number, or numbers with commas between";
      else if (span.length && span.length !== 2 * wanted) found.textContent = `an element has ${wanted} ${wanted === 1 ? "index" : "indices"} here`;
    });

    const player = section.querySelector("[data-player]");
    if (!player) continue;
    const [back, play, forward, scrub, count, sentence] =
      [".back", ".play", ".forward", ".scrub", ".count", ".sentence"].map((selector) => player.querySelector(selector));
    const frames = [...player.querySelectorAll("template")], theatre = player.querySelector(".stage");
    let step = 0, clock = null;

    const go = (to) => {
      const before = theatre.querySelector("svg");
      step = Math.max(0, Math.min(frames.length - 1, to));
      const frame = frames[step], { name, say } = frame.dataset;
      theatre.replaceChildren(frame.content.cloneNode(true));
      pictures[1] = theatre.querySelector("svg");
      listen(pictures[1]);
      travel(before, pictures[1]);
      sentence.textContent = say;
      count.textContent = `${step + 1} of ${frames.length}`;
      scrub.value = step + 1;
      scrub.setAttribute("aria-valuetext", `step ${step + 1} of ${frames.length}: ${name}`);
      back.disabled = step === 0;
      forward.disabled = step === frames.length - 1;
      if (pinned.length) pin(pinned, pick.value);
      else show(shown);
    };
    const stop = () => {
      clearInterval(clock);
      clock = null;
      play.setAttribute("aria-label", "Play");
      play.classList.remove("playing");
    };
    const start = () => {
      if (step === frames.length - 1) go(0);
      play.setAttribute("aria-label", "Pause");
      play.classList.add("playing");
      clock = setInterval(() => (step < frames.length - 1 ? go(step + 1) : stop()), PACE);
    };
    back.addEventListener("click", () => { stop(); go(step - 1); });
    forward.addEventListener("click", () => { stop(); go(step + 1); });
    play.addEventListener("click", () => (clock ? stop() : start()));
    scrub.addEventListener("input", () => { stop(); go(scrub.value - 1); });
    player.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move || event.target === scrub) return;
      event.preventDefault();
      stop();
      go(step + move);
    });
    go(0);
  }
})();
