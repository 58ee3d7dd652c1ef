
// The page of a load.
const attribute = (element, name) => Number.parseFloat(element.getAttribute(name));
const callsOf = (elements) => elements.map((one) => Number(one.dataset.calls));

selftest((check) => {
  const sections = all("section.rpc");
  check("sections", data.drivers[0].rpcs.length, sections.length);
  sections.forEach((section, index) => {
    const cells = all("td.calls", section).map((cell) => Number(cell.textContent.replaceAll(",", "")));
    check("calls in the table", data.drivers.map((driver) => driver.rpcs[index].calls), cells);
    data.drivers.forEach((driver, side) => {
      const row = driver.rpcs[index];
      const name = `${row.rpc} of ${driver.endpoint}`;
      const chart = (kind) =>
        section.querySelector(`[data-chart="${kind}"][data-side="${"ab"[side]}"]`);
      const bars = all(".bars rect", chart("histogram"));
      check(`bars of ${name}`, row.bars, callsOf(bars));
      check(`sum of the bars of ${name}`, row.calls, sum(callsOf(bars)));
      check(`heights of the bars of ${name}`, true, proportional(bars));
      check(`places of the bars of ${name}`, true, apart(bars));
      const dots = all(`.dots.${"ab"[side]} circle`, section);
      check(`dots of ${name}`, row.percentiles, dots.length);
      check(`rising percentiles of ${name}`, true, rising(dots));
      if (row.moments.length > 0) {
        const moments = all(".moments rect[data-calls]", chart("over-time"));
        check(`moments of ${name}`, row.moments.map(([calls]) => calls), callsOf(moments));
        check(`sum of the moments of ${name}`, row.calls, sum(callsOf(moments)));
        check(`places of the moments of ${name}`, true, apart(moments));
        const failed = all(".moments rect.failed", chart("over-time")).length;
        check(`failures of ${name}`, row.moments.filter(([, failed]) => failed > 0).length, failed);
      }
    });
  });
});

// Whether bars are as high as their calls say, to a pixel or two.
function proportional(bars) {
  const heights = bars.map((bar) => attribute(bar, "height"));
  const [most, highest] = [Math.max(...callsOf(bars)), Math.max(...heights)];
  return bars.every((bar, index) => {
    const wanted = (Number(bar.dataset.calls) / most) * highest;
    const bottom = attribute(bar, "y") + heights[index];
    return Math.abs(heights[index] - wanted) <= 1.1 && Math.abs(bottom - 168) < 0.2;
  });
}

// Whether each begins where the one before has ended, or later.
function apart(bars) {
  let end = -1;
  return bars.every((bar) => {
    const from = attribute(bar, "x");
    const fits = from >= end - 0.01;
    end = from + attribute(bar, "width");
    return fits && end <= 100.01;
  });
}

function rising(dots) {
  return dots.every((dot, index) => {
    if (index === 0) return true;
    const before = dots[index - 1];
    return attribute(dot, "cx") >= attribute(before, "cx") && attribute(dot, "cy") <= attribute(before, "cy");
  });
}
