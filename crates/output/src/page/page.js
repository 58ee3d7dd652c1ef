"use strict";
// What all pages do: filter their items, and test themselves where their address ends in #selftest.
// Texts become text nodes only; nothing here makes elements of them.

const data = JSON.parse(document.getElementById("data").textContent);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Shows the items that have every word and the pressed kind, and says how many. `textOf` tells what is searched.
function filtering(items, textOf, what, shown = () => {}) {
  const form = document.querySelector("form.filter");
  const words = form.elements.words;
  const kinds = all("button[data-kind]", form);
  const texts = new Map();
  const text = (item) => {
    if (!texts.has(item)) texts.set(item, textOf(item).toLowerCase());
    return texts.get(item);
  };
  const apply = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = kinds.find((one) => one.getAttribute("aria-pressed") === "true")?.dataset.kind;
    let count = 0;
    for (const item of items) {
      const fits = (!kind || item.dataset.kinds.split(" ").includes(kind)) &&
        wanted.every((word) => text(item).includes(word));
      item.hidden = !fits;
      count += fits ? 1 : 0;
    }
    const narrowed = Boolean(kind) || wanted.length > 0;
    form.querySelector("output").textContent = narrowed ? `${count} of ${items.length} ${what}` : "";
    shown(narrowed);
  };
  words.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of kinds) {
    button.addEventListener("click", () => {
      const pressed = button.getAttribute("aria-pressed") === "true";
      for (const one of kinds) one.setAttribute("aria-pressed", String(one === button && !pressed));
      apply();
    });
  }
  form.hidden = false;
}

// Types into the filter as a person would.
function typed(text) {
  const words = document.querySelector("form.filter").elements.words;
  words.value = text;
  words.dispatchEvent(new Event("input"));
}

const tests = [];

// A test of the page: compares what is drawn with the data by check(WHAT, WANTED, FOUND).
const selftest = (test) => tests.push(test);

selftest((check) => {
  // A table or a timeline may be wider than the window, and moves in its own place.
  check("nothing beyond the window", true, document.documentElement.scrollWidth <= innerWidth);
});

function outcome() {
  let passed = 0;
  const failed = [];
  const check = (what, wanted, found) => {
    if (JSON.stringify(wanted) === JSON.stringify(found)) passed += 1;
    else failed.push(`${what}: ${JSON.stringify(wanted)} is in the data, ${JSON.stringify(found)} on the page`);
  };
  for (const test of tests) {
    try {
      test(check);
    } catch (error) {
      failed.push(`${error}`);
    }
  }
  if (passed === 0) failed.push("nothing was checked");
  const output = document.createElement("pre");
  output.id = "selftest";
  output.dataset.outcome = failed.length === 0 ? "passed" : "failed";
  output.textContent = [`${passed} passed, ${failed.length} failed`, ...failed].join("\n");
  document.body.prepend(output);
}

addEventListener("load", () => {
  if (location.hash === "#selftest") outcome();
});

const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
