
// The page of a recording.
const rows = all(".call");
const bars = new Map(all("a.bar").map((bar) => [bar.dataset.call, bar]));
const calls = new Map(data.calls.map((call) => [String(call.call), call]));

// Writes the messages of a call below it, once.
function fill(row) {
  const inside = row.querySelector(".inside");
  if (inside.dataset.filled) return;
  inside.dataset.filled = "yes";
  const call = calls.get(row.dataset.call);
  const messages = document.createElement("div");
  messages.className = "messages";
  for (const [name, texts] of [["Request", call.requests], ["Reply", call.replies]]) {
    const part = document.createElement("div");
    const head = document.createElement("p");
    head.className = "muted";
    head.textContent = texts.length === 0 ? `No ${name.toLowerCase()}` : name;
    part.append(head);
    for (const text of texts) {
      const block = document.createElement("pre");
      block.textContent = text;
      part.append(block);
    }
    messages.append(part);
  }
  inside.append(messages);
}

// Opens a call and brings it into view.
function open(number) {
  const row = document.getElementById(`call-${number}`);
  if (!row) return;
  fill(row);
  row.open = true;
  for (const one of all(".chosen")) one.classList.remove("chosen");
  row.classList.add("chosen");
  bars.get(number)?.classList.add("chosen");
  row.scrollIntoView({ block: "nearest" });
}

for (const row of rows) {
  row.addEventListener("toggle", () => {
    if (row.open) fill(row);
  });
}
for (const [number, bar] of bars) {
  bar.addEventListener("click", (event) => {
    event.preventDefault();
    open(number);
  });
}

if (rows.length > 0) {
  const text = (row) => {
    const call = calls.get(row.dataset.call);
    return [row.textContent, ...call.requests, ...call.replies].join(" ");
  };
  filtering(rows, text, "calls", () => {
    for (const row of rows) bars.get(row.dataset.call).classList.toggle("faded", row.hidden);
  });
}
if (location.hash.startsWith("#call-")) open(location.hash.slice("#call-".length));

selftest((check) => {
  const numbers = data.calls.map((call) => String(call.call));
  check("rows", numbers, rows.map((row) => row.dataset.call));
  check("bars", [...numbers].sort(), [...bars.keys()].sort());
  for (const lane of all(".lane")) {
    let [end, before] = [-1, -1];
    const within = all(".bar", lane).every((bar) => {
      const [left, width] = [Number.parseFloat(bar.style.left), Number.parseFloat(bar.style.width)];
      const call = calls.get(bar.dataset.call);
      // In the data and as it is drawn, each begins after the end of the one before.
      const fits = left >= end - 0.001 && call.at >= before - 0.000002 && left + width <= 100.001;
      [end, before] = [left + width, call.at + call.seconds];
      return fits;
    });
    check("a lane without overlaps", true, within);
  }
  const longest = (of) => [...numbers].sort((one, other) => of(other) - of(one))[0];
  const seconds = (number) => calls.get(number).seconds;
  if (numbers.length > 0) {
    const width = (number) => Number.parseFloat(bars.get(number).style.width);
    check("the longest call is drawn longest", true, width(longest(seconds)) >= width(longest(width)) - 0.001);
  }
});

selftest((check) => {
  if (rows.length === 0) {
    check("calls", 0, data.calls.length);
    return;
  }
  const shown = () => rows.filter((row) => !row.hidden).length;
  const faded = () => all(".bar.faded").length;
  typed("no call has these words");
  check("none", [0, rows.length], [shown(), faded()]);
  const first = data.calls[0];
  typed(first.method);
  const wanted = data.calls.filter((call) => call.method === first.method).length;
  check("calls with the method of the first", true, shown() >= wanted && shown() + faded() === rows.length);
  typed("");
  check("all again", [rows.length, 0], [shown(), faded()]);
  for (const button of all("button[data-kind]")) {
    button.click();
    const kind = button.dataset.kind;
    check(`the button of ${kind}`, data.calls.filter((call) => call.kinds.split(" ").includes(kind)).length, shown());
    button.click();
  }
  for (const call of data.calls.slice(0, 50)) {
    bars.get(String(call.call)).click();
    const row = document.getElementById(`call-${call.call}`);
    const texts = all(".messages pre", row).map((one) => one.textContent);
    check(`a click on the bar of #${call.call}`, [true, ...call.requests, ...call.replies], [row.open, ...texts]);
    row.open = false;
  }
  const row = rows[0];
  row.querySelector("summary").click();
  check("a click on a row", true, row.open);
  row.open = false;
  for (const one of all(".chosen")) one.classList.remove("chosen");
});
