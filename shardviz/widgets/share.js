// Texts to copy, and files to save.

function render({ model, el }) {
  const root = unique();
  const button = sender(model);
  const forms = make(
    "div",
    { class: "sv-buttons", role: "group", "aria-label": "Copy as" },
    ...model.get("forms").map(([name, label]) => button(`Copy ${label}`, () => ({ do: "text", as: name }))),
  );
  const text = make("textarea", { class: "sv-mono", readonly: true, spellcheck: "false", "aria-label": "Text to copy", hidden: true });
  const copied = make("p", { class: "sv-hint", role: "status" });
  const name = new Field(`${root}-name`, "File name", { type: "text", class: "sv-mono" }, (value) => setter(model)("name", value));
  const saves = make(
    "div",
    { class: "sv-buttons", role: "group", "aria-label": "Save" },
    ...model.get("files").map(([kind, label]) => button(`Save ${label}`, () => ({ do: "save", as: kind, name: name.input.value }))),
  );
  const saved = make("p", { class: "sv-sentence", role: "status" });

  const show = () => {
    name.show(model.get("name"), "");
    saved.textContent = model.get("saved");
  };
  const receive = async (message, buffers) => {
    if (message.do === "download") {
      const link = make("a", { href: URL.createObjectURL(new Blob([buffers[0]])), download: message.name });
      link.click();
      URL.revokeObjectURL(link.href);
    }
    if (message.do === "text") {
      text.value = message.text;
      text.hidden = false;
      text.rows = Math.min(message.text.split("\n").length, 18);
      try {
        await navigator.clipboard.writeText(message.text);
        copied.textContent = `${message.label}: copied.`;
      } catch {
        text.select();
        copied.textContent = `${message.label}: selected; copy it with Ctrl+C.`;
      }
    }
  };
  model.on("msg:custom", receive);
  const ends = [
    disclosure(model, el, "Share", forms, text, copied, make("div", { class: "sv-guess-line" }, name.label, name.input), saves, saved),
    watch(model, ["name", "saved"], show),
    () => model.off("msg:custom", receive),
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
