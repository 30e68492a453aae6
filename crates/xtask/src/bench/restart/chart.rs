//! docs/memory.svg, drawn from the lines recorded in docs/memory.jsonl.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::workspace;

const LINES: &str = "docs/memory.jsonl";
const CHART: &str = "docs/memory.svg";

/// Replaces the recorded lines, and draws them.
pub(super) fn record(lines: &[Value]) -> Result<()> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(workspace::root().join(LINES), lines.join("\n") + "\n").context(LINES)?;
    draw()
}

/// Draws the lines recorded.
pub(super) fn draw() -> Result<()> {
    let lines = std::fs::read_to_string(workspace::root().join(LINES)).context(LINES)?;
    std::fs::write(workspace::root().join(CHART), chart(&lines)?).context(CHART)
}

struct Panel {
    title: &'static str,
    /// The field of a line.
    field: &'static str,
    /// What is not to be exceeded.
    limit: Option<f64>,
}

const PANELS: [Panel; 3] = [
    Panel {
        title: "Most memory of a process that starts, MB, by objects",
        field: "rss_mb",
        limit: Some(80.0),
    },
    Panel { title: "CPU for one object until the first decision, µs", field: "cpu_us_each", limit: None },
    Panel {
        title: "From its start to its first decision, seconds",
        field: "first_decision_s",
        limit: Some(3.0),
    },
];

/// A controller, and the colour of its line.
const SERIES: [(&str, &str); 2] = [("core", "#2563a8"), ("driver", "#b4531f")];

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 20.0;
const RIGHT: f64 = WIDTH - 60.0;
const BOTTOM: f64 = HEIGHT - 40.0;
/// The largest fleet, and how many objects lie between two marks.
const ACROSS: f64 = 30_000.0;
const MARK: f64 = 10_000.0;
const STYLE: &str = "<style>text { font: 12px sans-serif; fill: #222 } .title { font-weight: bold } \
                     .axis { stroke: #999 } .limit { stroke: #b00; stroke-dasharray: 5 4 }</style>";

type Points = Vec<(f64, f64)>;

fn chart(lines: &str) -> Result<String> {
    let lines: Vec<Value> =
        lines.lines().map(serde_json::from_str).collect::<Result<_, _>>().context(LINES)?;
    let drawn = |panel: &Panel| {
        let series = SERIES.map(|(name, colour)| (name, colour, points(&lines, name, panel.field)));
        let is_measured = series.iter().any(|(_, _, points)| !points.is_empty());
        is_measured.then(|| panel.drawn(&series))
    };
    let panels: Vec<String> = PANELS.iter().filter_map(drawn).collect::<Result<_, _>>()?;
    let mut svg = String::new();
    let mut left = 0.0;
    for panel in panels {
        writeln!(svg, "<g transform=\"translate({left} 0)\">\n{panel}</g>")?;
        left += WIDTH;
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {left} {HEIGHT}\">\n{STYLE}\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{svg}</svg>\n"
    ))
}

/// By objects, the middle one of the values of a controller's starts.
fn points(lines: &[Value], controller: &str, field: &str) -> Points {
    let mut runs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line["bench"] == "restart" && line["controller"] == controller) {
        let objects = line["objects"].as_u64().and_then(|objects| u32::try_from(objects).ok());
        if let (Some(objects), Some(value)) = (objects, line[field].as_f64()) {
            runs.entry(objects).or_default().push(value);
        }
    }
    let middle = |(objects, mut values): (u32, Vec<f64>)| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).map(|value| (f64::from(objects), *value))
    };
    runs.into_iter().filter_map(middle).collect()
}

fn across(objects: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * objects / ACROSS
}

impl Panel {
    fn drawn(&self, series: &[(&str, &str, Points)]) -> Result<String, std::fmt::Error> {
        let values = series.iter().flat_map(|(_, _, points)| points.iter().map(|(_, value)| *value));
        let top = values.chain(self.limit).fold(0.0, f64::max) * 1.3;
        let height = |value: f64| BOTTOM - (BOTTOM - 40.0) * value / top.max(f64::MIN_POSITIVE);
        let mut svg = String::new();
        writeln!(svg, "<text class=\"title\" x=\"{LEFT}\" y=\"22\">{}</text>", self.title)?;
        writeln!(svg, "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>")?;
        for mark in [0.0, 1.0, 2.0, 3.0].map(|count| count * MARK) {
            let (x, y, words) = (across(mark), BOTTOM + 16.0, in_thousands(mark));
            writeln!(svg, "<text x=\"{x:.0}\" y=\"{y}\" text-anchor=\"middle\">{words}</text>")?;
        }
        if let Some(limit) = self.limit {
            let y = height(limit);
            writeln!(
                svg,
                "<line class=\"limit\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>"
            )?;
            writeln!(svg, "<text x=\"{}\" y=\"{:.1}\">limit {limit}</text>", LEFT + 4.0, y - 4.0)?;
        }
        for (name, colour, points) in series {
            let at: Vec<_> =
                points.iter().map(|(size, value)| (across(*size), height(*value), *value)).collect();
            let path: Vec<_> = at.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
            writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>", path.join(" "))?;
            for (x, y, value) in &at {
                writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
                let (words, y) = (short(*value), y - 7.0);
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{words}</text>")?;
            }
            if let Some((x, y, _)) = at.last() {
                let (x, y) = (x + 6.0, y + 14.0);
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" style=\"fill:{colour}\">{name}</text>")?;
            }
        }
        Ok(svg)
    }
}

fn in_thousands(objects: f64) -> String {
    if objects < 1000.0 { format!("{objects:.0}") } else { format!("{:.0},000", objects / 1000.0) }
}

fn short(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_is_that_of_the_recorded_lines() {
        let read = |path: &str| std::fs::read_to_string(workspace::root().join(path));
        let (lines, drawn) = (read(LINES).unwrap(), read(CHART).unwrap());
        assert!(
            chart(&lines).unwrap() == drawn,
            "{CHART} is not that of {LINES}; draw it anew: cargo xtask bench restart --draw"
        );
    }

    #[test]
    fn of_several_starts_the_middle_one_counts() {
        let start = |objects: u32, rss: f64| serde_json::json!({ "bench": "restart", "controller": "core", "objects": objects, "rss_mb": rss });
        let lines = [start(2000, 5.0), start(2000, 9.0), start(2000, 6.0), start(500, 1.0)];
        assert_eq!(points(&lines, "core", "rss_mb"), [(500.0, 1.0), (2000.0, 6.0)]);
        assert_eq!(points(&lines, "driver", "rss_mb"), []);
        assert_eq!(points(&lines, "core", "first_decision_s"), []);
    }
}
