
// The page of a check.
const cases = all(".case");
const groups = all(".group");

filtering(cases, (item) => `${item.dataset.name} ${item.textContent}`, "cases", (narrowed) => {
  let found = false;
  for (const group of groups) {
    const shown = all(".case", group).some((item) => !item.hidden);
    group.hidden = !shown;
    found ||= shown;
    if (narrowed && shown) {
      group.dataset.opened ??= String(group.open);
      group.open = true;
    } else if (group.dataset.opened) {
      group.open = group.dataset.opened === "true";
      delete group.dataset.opened;
    }
  }
  document.querySelector(".none").hidden = found;
});

selftest((check) => {
  check("cases", data.cases.map((one) => one.name).sort(), cases.map((one) => one.dataset.name).sort());
  const ends = new Map();
  for (const one of data.cases) ends.set(one.end, (ends.get(one.end) ?? 0) + 1);
  for (const [end, count] of ends) {
    check(end, count, all(`.case.${end}`).length);
    check(`${end} in the bar`, count, attribute(document.querySelector(`section .ends .${end}`)));
  }
  check("the whole bar", data.cases.length, sum(all("section .ends span").map(attribute)));
  for (const group of groups) {
    const drawn = sum(all("summary .ends span", group).map(attribute));
    check(`bar of ${group.querySelector("h2").textContent}`, all(".case", group).length, drawn);
  }
  check("evidence", sum(data.cases.map((one) => one.evidence)), all(".case .evidence").length);
  const commands = all(".case pre").map((one) => one.textContent);
  check("commands", data.cases.filter((one) => one.commands.length > 0).length, commands.length);
});

function attribute(span) {
  return Number(span.style.flexGrow);
}

selftest((check) => {
  const shown = () => cases.filter((item) => !item.hidden);
  const first = data.cases[0].name;
  typed(first.toUpperCase());
  check("cases with the name of the first", true, shown().some((item) => item.dataset.name === first));
  check("fewer", true, data.cases.length === 1 || shown().length < data.cases.length);
  typed("no case has these words");
  check("none", [0, 0, false], [
    shown().length, groups.filter((group) => !group.hidden).length, document.querySelector(".none").hidden,
  ]);
  typed("");
  check("all again", data.cases.length, shown().length);
  for (const button of all("button[data-kind]")) {
    button.click();
    const wanted = data.cases.filter((one) => one.end === button.dataset.kind).length;
    check(`the button of ${button.dataset.kind}`, wanted, shown().length);
    button.click();
  }
  check("all after the buttons", data.cases.length, shown().length);
  const [group, item] = [groups[0], cases[0]];
  const before = [group.open, item.open];
  group.open = true;
  item.open = false;
  item.querySelector("summary").click();
  check("a click opens a case", [true, true], [item.open, item.querySelector(".inside").getClientRects().length > 0]);
  [group.open, item.open] = before;
});
