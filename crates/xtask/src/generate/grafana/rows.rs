//! What each panel of the dashboard asks, row by row.

/// How a panel shows what it asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
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
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) look: Look,
    pub(super) unit: &'static str,
    pub(super) asks: &'static [(&'static str, &'static str)],
}

/// Panels under one title.
pub(super) struct Row {
    pub(super) title: &'static str,
    pub(super) panels: &'static [Panel],
}

/// The dashboard, from top to bottom.
pub(super) const ROWS: &[Row] = &[
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
