"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const ANCHORS = ["start", "middle", "end"];
  const [ELEMENT, ADDEND, PADDING] = [0, 1, 2];
  const [SURFACE, MUTED, FAINT] = [4, 1, 2]; // places in the list of tones
  const PACE = 1800, TRAVEL = 500; // milliseconds
  const data = JSON.parse(document.getElementById("pictures").textContent);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  const make = (name, attributes = {}, parent = null, text = null) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };

  const draw = {
    0: (svg, [, x, y, width, height, kind, hue, rank, span = [], label = "", size = 11, note = ""]) => {
      const cell = make("g", { class: kind === ELEMENT ? "cell bare" : "cell" }, svg);
      const rx = Math.min(3.5, width / 4, height / 4);
      const place = { x, y, width, height, rx };
      const paints = kind === ELEMENT ? [hue < 0 ? `f${MUTED}` : `h${hue}`]
        : kind === ADDEND ? [`p${Math.max(hue, 0)} s${Math.max(hue, 0)}`]
        : [`f${SURFACE} l${kind === PADDING ? MUTED : FAINT}`];
      for (const paint of paints) make("rect", { ...place, class: paint, "stroke-dasharray": kind > PADDING ? "2.5 2" : null,
        "stroke-width": kind === ADDEND ? 1.5 : 0.8 }, cell);
      if (kind === PADDING) make("rect", { ...place, fill: "url(#padding)" }, cell);
      const ink = kind === ELEMENT && hue >= 0 ? `o${hue}` : kind === ADDEND ? "f0" : `f${MUTED}`;
      const lines = label ? label.split("\n") : [];
      const pitch = size * 1.12;
      let base = y + (height - lines.length * pitch - (note ? 8 : 0)) / 2 + pitch / 2 + size * 0.36;
      for (const line of lines) {
        make("text", { x: x + width / 2, y: base, "font-size": size, "text-anchor": "middle", "font-weight": "bold", class: ink }, cell, line);
        base += pitch;
      }
      if (note) make("text", { x: x + width / 2, y: base - size * 0.36 - pitch / 2 + 6.5, "font-size": 7, "text-anchor": "middle", class: ink }, cell, note);
      Object.assign(cell, { span, rank, kind, at: [x + width / 2, y + height / 2] });
      const what = kind === PADDING ? "padding" : span.length ? `${kind === ADDEND ? "addend of " : ""}element ${name(span)}` : "";
      make("title", {}, cell, [what, rank >= 0 ? `on rank ${rank}` : ""].filter(Boolean).join(" "));
    },
    1: (svg, [, x, y, text, size, tone = 0, anchor = 0, bold = 0]) =>
      make("text", { x, y, "font-size": size, class: `f${tone}`, "text-anchor": ANCHORS[anchor], "font-weight": bold ? "bold" : null }, svg, text),
    2: (svg, [, points, tone, width, dashed = 0, curved = 0, arrow = 0]) => {
      const [x, y, ...rest] = points;
      const path = `M${x} ${y}${curved ? "Q" : "L"}${rest.join(" ")}`;
      make("path", { d: path, fill: "none", class: `l${tone}`, "stroke-width": width, "stroke-linecap": "round", "stroke-linejoin": "round",
        "stroke-dasharray": dashed ? "3 3" : null }, svg);
      if (arrow) {
        const [x0, y0, x1, y1] = points.slice(-4);
        const length = Math.hypot(x1 - x0, y1 - y0) || 1;
        const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
        const [bx, by] = [x1 - 5 * ux, y1 - 5 * uy];
        make("polygon", { points: `${x1},${y1} ${bx - 2.4 * uy},${by + 2.4 * ux} ${bx + 2.4 * uy},${by - 2.4 * ux}`, class: `f${tone}` }, svg);
      }
    },
    3: (svg, [, x, y, width, height, fill, stroke, line = 1, rx = 0, dashed = 0]) =>
      make("rect", { x, y, width, height, rx, class: `${fill >= 0 ? `f${fill}` : ""} ${stroke >= 0 ? `l${stroke}` : ""}`.trim() || null,
        fill: fill >= 0 ? null : "none", "stroke-width": stroke >= 0 ? line : null, "stroke-dasharray": dashed ? "3 2.5" : null }, svg),
  };

  const name = (span) => {
    const parts = [];
    for (let i = 0; i < span.length; i += 2) parts.push(span[i + 1] - span[i] === 1 ? `${span[i]}` : `${span[i]}-${span[i + 1] - 1}`);
    return parts.length > 1 ? `(${parts.join(", ")})` : parts[0];
  };

  const meets = (one, other) => one.length === other.length && one.length > 0
    && one.every((_, i) => i % 2 || (one[i] < other[i + 1] && other[i] < one[i + 1]));

  const render = (stage, scene, label, words) => {
    const svg = make("svg", { viewBox: `0 0 ${scene.w} ${scene.h}`, width: scene.w, height: scene.h, role: "img", "aria-label": label,
      "aria-describedby": words || null });
    const pattern = make("pattern", { id: "padding", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      make("defs", {}, svg));
    make("path", { d: "M0 0V5", class: `l${MUTED}`, "stroke-width": 1.6 }, pattern);
    for (const mark of scene.m) draw[mark[0]](svg, mark);
    stage.replaceChildren(svg);
    return svg;
  };

  const cells = (svg) => [...svg.querySelectorAll(".cell")];

  // Elements travel from where they were: on their own rank if they were there, else from the nearest one that had them.
  const travel = (before, after) => {
    if (calm.matches || !before.length) return;
    const known = new Map();
    for (const cell of before) {
      const key = cell.span.join();
      if (key) known.set(key, [...(known.get(key) || []), cell]);
    }
    for (const cell of cells(after)) {
      const found = known.get(cell.span.join());
      if (!found || !cell.animate) {
        if (cell.kind === PADDING && cell.animate) cell.animate([{ opacity: 0 }, { opacity: 1 }], { duration: TRAVEL });
        continue;
      }
      const far = (other) => (other.rank === cell.rank ? 0 : 1e6) + Math.hypot(other.at[0] - cell.at[0], other.at[1] - cell.at[1]);
      const from = found.reduce((best, other) => (far(other) < far(best) ? other : best));
      const [dx, dy] = [from.at[0] - cell.at[0], from.at[1] - cell.at[1]];
      if (dx || dy) cell.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }],
        { duration: TRAVEL, easing: "cubic-bezier(.4, 0, .2, 1)" });
    }
  };

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
    const facts = data[figure.dataset.picture];
    const stage = figure.querySelector(".stage");
    const pick = section.querySelector(".pick"), found = section.querySelector(".found");
    const pictures = [render(stage, facts, stage.dataset.label, stage.dataset.words)];
    let pinned = [], shown = [];

    const show = (span) => {
      shown = span;
      for (const svg of pictures) {
        svg.classList.toggle("following", span.length > 0);
        // The mesh beside all steps at once says nothing of any one of them.
        const all = cells(svg).filter((cell) => cell.rank >= 0 && (cell.span.length || cell.kind === PADDING || svg === pictures.at(-1)));
        const homes = new Set(all.filter((cell) => meets(cell.span, span)).map((cell) => cell.rank));
        for (const cell of all) {
          // A rank of the mesh has no span: it is lit where it has the element.
          const here = cell.span.length || cell.kind === PADDING ? meets(cell.span, span) : homes.has(cell.rank);
          cell.classList.toggle("here", span.length > 0 && here);
          cell.classList.toggle("other", span.length > 0 && !here);
        }
      }
    };
    const pin = (span, text) => {
      pinned = span;
      show(span);
      pick.value = text;
      const ranks = [...new Set(cells(pictures.at(-1)).filter((cell) => cell.rank >= 0 && meets(cell.span, span)).map((cell) => cell.rank))];
      const where = pictures.length > 1 ? " in this step" : "";
      found.textContent = !span.length ? "" : ranks.length ? `on rank${ranks.length > 1 ? "s" : ""} ${ranks.join(", ")}${where}` : `on no rank that is drawn${where}`;
    };
    const listen = (svg) => {
      svg.addEventListener("pointerover", (event) => {
        const cell = event.target.closest(".cell");
        show(cell && cell.span.length ? cell.span : pinned);
      });
      svg.addEventListener("pointerleave", () => show(pinned));
      svg.addEventListener("click", (event) => {
        const cell = event.target.closest(".cell");
        const span = cell && cell.span.length && cell.span.join() !== pinned.join() ? cell.span : [];
        pin(span, span.length ? name(span).replace(/[()]/g, "") : "");
      });
    };
    listen(pictures[0]);
    pick.addEventListener("input", () => {
      const parts = pick.value.split(",").map((part) => part.trim().match(/^(\d+)(?:-(\d+))?$/));
      const span = parts.every(Boolean) ? parts.flatMap(([, first, last]) => [+first, +(last ?? first) + 1]) : [];
      pin(span, pick.value);
      const wanted = Math.max(0, ...cells(pictures[0]).map((cell) => cell.span.length)) / 2;
      if (!span.length && pick.value.trim()) found.textContent = "an index is a number, or numbers with commas between";
      else if (span.length && span.length !== 2 * wanted) found.textContent = `an element has ${wanted} ${wanted === 1 ? "index" : "indices"} here`;
    });

    const player = section.querySelector("[data-player]");
    if (!player) continue;
    const [back, play, forward, scrub, count, sentence] =
      [".back", ".play", ".forward", ".scrub", ".count", ".sentence"].map((selector) => player.querySelector(selector));
    const frames = facts.frames, theatre = player.querySelector(".stage");
    let step = 0, clock = null;

    const go = (to, said = true) => {
      const before = pictures.length > 1 ? cells(pictures[1]) : [];
      step = Math.max(0, Math.min(frames.length - 1, to));
      const frame = frames[step];
      pictures[1] = render(theatre, frame, `Step ${step + 1} of ${frames.length}: ${frame.name}`);
      listen(pictures[1]);
      travel(before, pictures[1]);
      if (said || !sentence.textContent) sentence.textContent = frame.say;
      count.textContent = `${step + 1} of ${frames.length}`;
      scrub.value = step + 1;
      scrub.setAttribute("aria-valuetext", `step ${step + 1} of ${frames.length}: ${frame.name}`);
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
