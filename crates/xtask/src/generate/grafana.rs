//! The dashboard for Grafana: what each panel asks, and how it shows it. Where things stand is counted out.

use serde_json::{Value, json};

/// Where it lies in the chart: not among the templates, as helm would take Grafana's braces for its own.
pub const PATH: &str = "chart/address-controller/dashboards/addresses.json";

const WIDTH: u32 = 24;
const HEIGHT: u32 = 7;

/// How a panel shows what it asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// One number; red unless it is zero.
    Alarm,
    /// One number.
    Number,
    /// Lines over time.
    Lines,
    /// Areas over time, on top of each other.
    Areas,
    /// Lines over time, with dots that lead to traces.
    Traced,
    /// Bars from nothing to full.
    Bars,
}

/// A panel: title, what is to be known about it, look, unit, and what it asks with the legend of each answer.
struct Panel {
    title: &'static str,
    about: &'static str,
    look: Look,
    unit: &'static str,
    asks: &'static [(&'static str, &'static str)],
}

struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

const ROWS: &[Row] = &[
    Row {
        title: "Now",
        panels: &[
            panel(
                "Bound",
                "Addresses bound to claims.",
                Look::Number,
                "short",
                &[(r#"sum(ipam_addresses{class=~"$class",state="Bound"})"#, "")],
            ),
            panel(
                "Conflicts",
                "Addresses at Services they were not given to.",
                Look::Alarm,
                "short",
                &[("max(ipam_conflicts)", "")],
            ),
            panel(
                "Lost",
                "Addresses that no pool contains any more.",
                Look::Alarm,
                "short",
                &[(r#"sum(ipam_addresses{class=~"$class",state="Lost"})"#, "")],
            ),
            panel(
                "With nobody",
                "Reserved addresses that MetalLB shows at no Service and no placeholder.",
                Look::Alarm,
                "short",
                &[(r#"sum(max by (pool, family) (ipam_pool_addresses_unheld{pool=~"$pool"}))"#, "")],
            ),
            panel(
                "Claims waiting",
                "Claims that are not bound, of classes that exist or not.",
                Look::Number,
                "short",
                &[(r#"sum(ipam_claims{phase="Pending"})"#, "")],
            ),
            panel(
                "Handoffs in progress",
                "Begun and not ended.",
                Look::Number,
                "short",
                &[("max(ipam_handoffs_in_progress)", "")],
            ),
        ],
    },
    Row {
        title: "Pools",
        panels: &[
            panel(
                "Filled",
                "What is attached or reserved, of all addresses of the pool.",
                Look::Bars,
                "percentunit",
                &[(
                    r#"1 - max without (state) (ipam_pool_addresses{pool=~"$pool",state="free"}) / sum without (state) (ipam_pool_addresses{pool=~"$pool"})"#,
                    "{{pool}} {{family}}",
                )],
            ),
            panel(
                "Attached and reserved",
                "Attached: at a Service. Reserved: kept, and at none.",
                Look::Areas,
                "short",
                &[(
                    r#"sum by (pool, state) (ipam_pool_addresses{pool=~"$pool",state!="free"})"#,
                    "{{pool}} {{state}}",
                )],
            ),
            panel(
                "Classes",
                "1: new addresses are reserved from the class. 0: not, and why.",
                Look::Lines,
                "short",
                &[(
                    r#"max by (class, reason) (ipam_class_accepted{class=~"$class"})"#,
                    "{{class}} {{reason}}",
                )],
            ),
        ],
    },
    Row {
        title: "Addresses and claims",
        panels: &[
            panel(
                "Addresses by phase",
                "IPAddress objects.",
                Look::Areas,
                "short",
                &[(r#"sum by (state) (ipam_addresses{class=~"$class"})"#, "{{state}}")],
            ),
            panel(
                "Claims by phase",
                "IPAddressClaim objects.",
                Look::Areas,
                "short",
                &[("sum by (phase) (ipam_claims)", "{{phase}}")],
            ),
            panel(
                "Reservation",
                "From the creation of a claim to its being bound. The dots lead to traces.",
                Look::Traced,
                "s",
                &[
                    (
                        r#"histogram_quantile(0.5, sum by (le) (rate(ipam_reservation_seconds_bucket{class=~"$class"}[$__rate_interval])))"#,
                        "half",
                    ),
                    (
                        r#"histogram_quantile(0.95, sum by (le) (rate(ipam_reservation_seconds_bucket{class=~"$class"}[$__rate_interval])))"#,
                        "95 %",
                    ),
                ],
            ),
        ],
    },
    Row {
        title: "Handoffs",
        panels: &[
            panel(
                "Handoffs",
                "How many a second, each way.",
                Look::Lines,
                "ops",
                &[(
                    "sum by (direction, mode) (rate(ipam_handoff_seconds_count[$__rate_interval]))",
                    "{{direction}} {{mode}}",
                )],
            ),
            panel(
                "How long they take",
                "From the first step to the last. The dots lead to traces.",
                Look::Traced,
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le, direction) (rate(ipam_handoff_seconds_bucket[$__rate_interval])))",
                        "{{direction}} half",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le, direction) (rate(ipam_handoff_seconds_bucket[$__rate_interval])))",
                        "{{direction}} 95 %",
                    ),
                ],
            ),
            panel(
                "With nobody meanwhile",
                "Seconds in which nobody had the address, for each second. The dots lead to traces.",
                Look::Traced,
                "s",
                &[(
                    "sum by (direction, mode) (rate(ipam_handoff_unheld_seconds_sum[$__rate_interval]))",
                    "{{direction}} {{mode}}",
                )],
            ),
        ],
    },
    Row {
        title: "Controllers",
        panels: &[
            panel(
                "Who leads",
                "1: works. 0: stands by.",
                Look::Lines,
                "short",
                &[("max by (name, instance) (leader_election_master_status)", "{{name}} {{instance}}")],
            ),
            panel(
                "Passes",
                "How many a second, by what became of them.",
                Look::Lines,
                "ops",
                &[(
                    "sum by (job, controller, result) (rate(controller_runtime_reconcile_total[$__rate_interval]))",
                    "{{job}} {{controller}} {{result}}",
                )],
            ),
            panel(
                "Keys that wait",
                "To be decided about.",
                Look::Lines,
                "short",
                &[("sum by (job, name) (workqueue_depth)", "{{job}} {{name}}")],
            ),
            panel(
                "Waiting before a pass",
                "95 % wait less.",
                Look::Lines,
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le, job, name) (rate(workqueue_queue_duration_seconds_bucket[$__rate_interval])))",
                    "{{job}} {{name}}",
                )],
            ),
            panel(
                "Writes",
                "What the API server accepted.",
                Look::Lines,
                "ops",
                &[(
                    "sum by (job, verb, resource) (rate(address_controller_writes_total[$__rate_interval]))",
                    "{{job}} {{verb}} {{resource}}",
                )],
            ),
            panel(
                "Requests",
                "To the API server, by answer.",
                Look::Lines,
                "ops",
                &[(
                    "sum by (job, method, code) (rate(rest_client_requests_total[$__rate_interval]))",
                    "{{job}} {{method}} {{code}}",
                )],
            ),
        ],
    },
];

const fn panel(
    title: &'static str,
    about: &'static str,
    look: Look,
    unit: &'static str,
    asks: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, look, unit, asks }
}

/// The dashboard, as Grafana 10 and later read it.
pub fn dashboard() -> Value {
    let (mut panels, mut y) = (Vec::new(), 0);
    for row in ROWS {
        let id = panels.len() + 1;
        panels.push(json!({
            "id": id, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": { "x": 0, "y": y, "w": WIDTH, "h": 1 },
        }));
        y += 1;
        // Numbers stand side by side, everything else in threes.
        let numbers = row.panels.iter().all(|panel| matches!(panel.look, Look::Alarm | Look::Number));
        let (abreast, height) = if numbers { (6, 4) } else { (3, HEIGHT) };
        for line in row.panels.chunks(abreast) {
            let width = WIDTH / u32::try_from(abreast).unwrap_or(1);
            for (x, panel) in (0_u32..).zip(line) {
                let at = json!({ "x": x * width, "y": y, "w": width, "h": height });
                panels.push(rendered(panel, panels.len() + 1, at));
            }
            y += height;
        }
    }
    json!({
        "uid": "address-controller",
        "title": "Address controller",
        "tags": ["address-controller", "metallb"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
            variable("class", "Class", "ipam_addresses"),
            variable("pool", "Pool", "ipam_pool_addresses"),
        ]},
        "panels": panels,
    })
}

fn variable(name: &str, label: &str, metric: &str) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": { "query": format!("label_values({metric}, {name})"), "refId": "A" },
        "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn rendered(panel: &Panel, id: usize, at: Value) -> Value {
    let kind = match panel.look {
        Look::Alarm | Look::Number => "stat",
        Look::Lines | Look::Areas | Look::Traced => "timeseries",
        Look::Bars => "bargauge",
    };
    let once = matches!(panel.look, Look::Alarm | Look::Number | Look::Bars);
    let targets = panel.asks.iter().zip('A'..).map(|((expression, legend), id)| {
        json!({
            "refId": id.to_string(), "expr": expression, "legendFormat": legend, "datasource": source(),
            "instant": once, "range": !once, "exemplar": panel.look == Look::Traced,
        })
    });
    json!({
        "id": id, "type": kind, "title": panel.title, "description": panel.about, "gridPos": at,
        "datasource": source(), "targets": targets.collect::<Vec<_>>(),
        "fieldConfig": { "defaults": defaults(panel), "overrides": [] },
        "options": options(panel.look),
    })
}

fn defaults(panel: &Panel) -> Value {
    let steps = |above: &[(&str, f64)]| {
        let first = json!({ "color": "green", "value": null });
        let rest = above.iter().map(|(color, from)| json!({ "color": color, "value": from }));
        json!({ "mode": "absolute", "steps": std::iter::once(first).chain(rest).collect::<Vec<_>>() })
    };
    let mut defaults = json!({ "unit": panel.unit, "min": 0 });
    match panel.look {
        Look::Alarm => defaults["thresholds"] = steps(&[("red", 1.0)]),
        Look::Bars => {
            defaults["max"] = json!(1);
            defaults["thresholds"] = steps(&[("orange", 0.75), ("red", 0.9)]);
        }
        Look::Areas => {
            defaults["custom"] = json!({ "fillOpacity": 40, "stacking": { "mode": "normal", "group": "A" } });
        }
        Look::Number | Look::Lines | Look::Traced => {}
    }
    defaults
}

fn options(look: Look) -> Value {
    match look {
        Look::Alarm => json!({ "colorMode": "background", "reduceOptions": { "calcs": ["lastNotNull"] } }),
        Look::Number => json!({ "colorMode": "none", "reduceOptions": { "calcs": ["lastNotNull"] } }),
        Look::Bars => json!({ "orientation": "horizontal", "reduceOptions": { "calcs": ["lastNotNull"] } }),
        Look::Lines | Look::Areas | Look::Traced => {
            json!({ "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_panels_stand_in_one_place() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len());
        let mut taken = BTreeSet::new();
        for panel in panels {
            let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
            assert!(at("x") + at("w") <= u64::from(WIDTH), "{panel}");
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{} stands on another", panel["title"]);
                }
            }
        }
    }

    #[test]
    fn every_panel_says_what_it_shows() {
        for panel in ROWS.iter().flat_map(|row| row.panels) {
            assert!(panel.about.ends_with('.') && !panel.asks.is_empty(), "{}", panel.title);
        }
    }
}
