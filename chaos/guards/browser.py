"""The scripts of the dashboard: shortcuts, live updates, lists, searches and charts."""

from chaos.guards.mutant import Mutant, test

SCRIPTS = "src/treadle/web/dashboard/static/scripts"
BROWSER = "web/browser"

MUTANTS = [
    Mutant(
        "a button that copies twice gets its label back",
        f"{SCRIPTS}/copying.js",
        "  restore();\n  const label",
        "  const label",
        test("web/browser_keyboard", "test_a_button_that_copies_gets_its_label_back"),
    ),
    Mutant(
        "text in a field is not a shortcut",
        f"{SCRIPTS}/keyboard.js",
        '  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName) && event.target.type !== "checkbox") return;\n',
        "",
        test("web/browser_keyboard", "test_the_shortcuts_are_listed_and_lead_to_the_pages"),
    ),
    Mutant(
        "the palette works if the names cannot be read",
        f"{SCRIPTS}/palette.js",
        "if (!response.ok || asked !== text) return;",
        "",
        test("web/browser_keyboard", "test_the_palette_works_while_the_server_has_no_names"),
    ),
    Mutant(
        "a page connects again after an HTTP error",
        f"{SCRIPTS}/connection.js",
        "      retryTimer = setTimeout(resume, RECONNECT_MS, true);\n",
        "",
        test(BROWSER, "test_an_open_page_reconnects_after_an_http_error"),
    ),
    Mutant(
        "a page whose server is silent looks stale",
        f"{SCRIPTS}/age.js",
        "isLive() && age > (reason ? UNAVAILABLE_MS : STALE_MS)",
        "isLive() && reason",
        test("web/outages", "test_a_dashboard_that_stops_makes_its_pages_look_stale"),
    ),
    Mutant(
        "an error page loads the page again",
        f"{SCRIPTS}/retry.js",
        "if (response.status < 500) return location.reload();",
        "",
        test("web/outages", "test_an_error_page_loads_the_page_when_the_database_is_back"),
    ),
    Mutant(
        "a menu that is open stays open when the page is updated",
        f"{SCRIPTS}/merging.js",
        'old.nodeName === "DETAILS" ? ["open"]',
        'old.nodeName === "DETAILS" ? []',
        test(BROWSER, "test_a_live_update_keeps_focus_and_input"),
    ),
    Mutant(
        "a log line is appended once",
        f"{SCRIPTS}/merging.js",
        "      if (Number(line.dataset.number) > last) list",
        "      list",
        test(BROWSER, "test_a_log_line_is_appended_once"),
    ),
    Mutant(
        "rows of the overview keep their order in the browser",
        f"{SCRIPTS}/merging.js",
        "old.dataset?.keepOrder === undefined",
        "true",
        test(BROWSER, "test_waiting_jobs_keep_their_order_while_their_numbers_change"),
    ),
]
