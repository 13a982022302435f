/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The report: malicious text never becomes markup, unusual runs (empty, one step, nothing finite, thousands
 * of events) give a page, and facts about a run come from its folder: sessions, how it ended, unique
 * names. */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/report/page/chart.h"
#include "engine/report/page/html.h"
#include "engine/report/page/report.h"

/* A run folder with such metrics and, unless NULL, such a config. */
static const char *put(const char *name, const char *metrics, const char *config)
{
    static char folder[256];
    char path[512];
    (void)snprintf(folder, sizeof folder, "%s/%s", test_folder(), name);
    assert_ok(clt_mkdir_p(folder));
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    assert_ok(clt_file_write(path, metrics, strlen(metrics)));
    (void)snprintf(path, sizeof path, "%s/config.resolved.json", folder);
    if (config)
        assert_ok(clt_file_write(path, config, strlen(config)));
    return folder;
}

static char *page_of(const char *const *folders, int count, const char *title)
{
    clt_run_record *runs[CLT_REPORT_RUNS] = {NULL};
    clt_report_options options = {.title = title};
    clt_str page = {0};
    for (int i = 0; i < count; i++)
        assert_ok(clt_run_record_load(folders[i], &runs[i]));
    assert_ok(clt_run_names(runs, count));
    assert_ok(clt_report_html(runs, count, &options, &page));
    for (int i = 0; i < count; i++)
        clt_run_record_free(runs[i]);
    return page.text;
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not there", part);
}

static void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("'%s' is there: %.200s", part, strstr(text, part));
}

/* --- escaping --- */

static const char *const hostile[] = {
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</pre></figure><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "\" style=\"background:url(http://example.com/x)",
    "javascript:alert(1)",
    "<a href=javascript:alert(1)>x</a>",
    "<iframe src=//example.com></iframe>",
    "<object data=//example.com>",
    "<embed src=//example.com>",
    "<link rel=stylesheet href=//example.com>",
    "<meta http-equiv=refresh content=0;url=//example.com>",
    "<base href=//example.com>",
    "<form action=//example.com><input name=x>",
    "<style>*{background:url(//example.com)}</style>",
    "<!-- ",
    "--> <b>x</b>",
    "<![CDATA[ x ]]>",
    "]]>",
    "<?php echo 1 ?>",
    "<!DOCTYPE html>",
    "<plaintext>",
    "<textarea>",
    "<noscript>",
    "<template><script>alert(1)</script></template>",
    "<math><mi//xlink:href=\"data:x,<script>alert(1)</script>\">",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<body onload=alert(1)>",
    "<sCrIpT>alert(1)</sCrIpT>",
    "<script\x0c>alert(1)</script>",
    "<scr\x01ipt>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "%3Cscript%3Ealert(1)",
    "\xc0\xbcscript\xc0\xbe", /* overlong < and > */
    "\xff\xfe<\xffscript>",
    "\xed\xa0\x80<b>",
    "+ADw-script+AD4-alert(1)",
    "\xe2\x80\xae\"thgir\" ot tfel\xe2\x80\xac",
    "\xef\xbc\x9cscript\xef\xbc\x9e",
    "a\nb\r\nc\rd\te\x7f\xc2\x85",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "`\"'><",
    "%s%n%p%d",
    "\x1b[31mred\x1b[0m",
};
#define HOSTILE (sizeof hostile / sizeof hostile[0])

TEST(text_is_never_markup)
{
    for (size_t i = 0; i < HOSTILE; i++) {
        CLT_SCOPED(clt_str) out = {0};
        clt_html_text(&out, hostile[i]);
        assert_ok(clt_str_check(&out));
        assert_null(strpbrk(out.text, "<>\"'"));
        for (const char *p = strchr(out.text, '&'); p; p = strchr(p + 1, '&'))
            assert_true(strncmp(p, "&amp;", 5) == 0 || strncmp(p, "&lt;", 4) == 0 ||
                        strncmp(p, "&gt;", 4) == 0 || strncmp(p, "&quot;", 6) == 0 ||
                        strncmp(p, "&#39;", 5) == 0);
        for (size_t at = 0; at < out.length;) {
            size_t size = clt_utf8_size(out.text + at, out.length - at);
            assert_true(size > 0 && (size > 1 || out.text[at] >= 0x20 || strchr("\t\n", out.text[at])));
            at += size;
        }
    }
}

TEST(escaping_keeps_what_can_be_kept)
{
    static const char *const pairs[][2] = {
        {"plain text", "plain text"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"a<b&c", "a&lt;b&amp;c"},
        {"a\r\nb\rc", "a\nb\nc"},
        {"\xff", "\xef\xbf\xbd"},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CLT_SCOPED(clt_str) out = {0};
        clt_str_append(&out, "");
        clt_html_text(&out, pairs[i][0]);
        assert_string_equal(out.text, pairs[i][1]);
    }
    clt_str cut = {0};
    clt_html_text_cut(&cut, "<<<<", 2);
    assert_string_equal(cut.text, "&lt;&lt;\xe2\x80\xa6");
    clt_str_free(&cut);
}

/* All texts that a run folder can hold are hostile: the page gets no tag from them. */
TEST(hostile_runs_give_a_harmless_page)
{
    clt_str metrics = {0}, config = {0};
    clt_json_writer c = clt_json_writer_make(&config, 1);
    clt_jw_object(&c);
    clt_jw_kobject(&c, "train");
    for (size_t i = 0; i < HOSTILE; i++) {
        clt_json_writer w = clt_json_writer_make(&metrics, 0);
        static const char *const events[] = {"start",   "saved",   "sample", "advice",
                                             "warning", "stopped", "failed", "x"};
        clt_jw_object(&w);
        clt_jw_kstring(&w, "event", i % 8 == 7 ? hostile[i] : events[i % 8]);
        clt_jw_kint(&w, "step", (int64_t)i);
        static const char *const keys[] = {"device", "driver", "precision", "model", "version", "host",
                                           "path",   "reason", "prompt",    "text",  "message"};
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            clt_jw_kstring(&w, keys[k], hostile[(i + k) % HOSTILE]);
        clt_jw_kobject(&w, "cost");
        clt_jw_kdouble(&w, "per_hour", 1);
        clt_jw_kdouble(&w, "total", 5);
        clt_jw_kdouble(&w, "seconds", 5);
        clt_jw_kstring(&w, "currency", hostile[i]);
        clt_jw_kstring(&w, "tags", hostile[(i + 1) % HOSTILE]);
        clt_jw_end_object(&w);
        clt_jw_end_object(&w);
        clt_str_printf(&metrics, "\n{\"step\":%zu,\"loss\":%zu}\n", i + 1, i);
        clt_jw_kstring(&c, hostile[i], hostile[i]);
    }
    clt_jw_end_object(&c);
    clt_jw_end_object(&c);
    assert_ok(clt_str_check(&metrics));
    assert_ok(clt_str_check(&config));
    char a[256], b[256];
    (void)snprintf(a, sizeof a, "%s", put("<img src=x onerror=alert(1)>", metrics.text, config.text));
    (void)snprintf(b, sizeof b, "%s", put("\"'&\xff<script>", metrics.text, config.text));
    for (size_t i = 0; i < 3; i++) {
        const char *const both[] = {a, b};
        char *page =
            page_of(both + (i == 1), i == 2 ? 2 : 1, i == 0 ? NULL : "</title><script>alert(1)</script>");
        char *script = strstr(page, "<script>");
        assert_non_null(script);
        assert_null(strstr(script + 1, "<script>")); /* the page has only its own script */
        static const char *const tags[] = {"<img",
                                           "<svg/",
                                           "<iframe",
                                           "<object",
                                           "<embed",
                                           "<link",
                                           "<base",
                                           "<form",
                                           "<textarea",
                                           "<template",
                                           "<math",
                                           "<body onload",
                                           "<details open ontoggle",
                                           "\" onmouseover",
                                           "' onmouseover",
                                           "<plaintext",
                                           "<!--",
                                           "\x1b",
                                           "src=\""};
        for (size_t k = 0; k < sizeof tags / sizeof tags[0]; k++)
            assert_lacks(page, tags[k]);
        for (size_t at = 0, n = strlen(page); at < n;) {
            size_t size = clt_utf8_size(page + at, n - at);
            assert_true(size > 0);
            at += size;
        }
        free(page);
    }
    clt_str_free(&metrics);
    clt_str_free(&config);
}

/* --- odd runs --- */

TEST(odd_runs_give_a_page)
{
    static const char *const all[] = {
        "",
        "\n\n\n",
        "garbage",
        "{\"step\":1,\"loss\":2}\n",
        "{\"step\":1,\"loss\":null,\"nonfinite\":true}\n{\"step\":2,\"loss\":null}\n",
        "{\"step\":0,\"loss\":0}\n{\"step\":4503599627370496,\"loss\":1e308}\n",
        "{\"step\":5,\"loss\":-3,\"accuracy\":2,\"device_busy\":-1,\"step_ms\":-5,\"device_bytes\":1e300,"
        "\"time\":1e300}\n"
        "{\"step\":6,\"loss\":1e-300,\"accuracy\":0,\"device_busy\":9,\"step_ms\":1e300,\"time\":-4,"
        "\"skipped\":1e300}\n",
        "{\"step\":1,\"eval_loss\":2}\n",
        "{\"event\":\"end\",\"step\":3,\"seconds\":\"text\"}\n",
        "{\"event\":\"start\",\"step\":0,\"ranks\":[1],\"parameters\":{\"a\":1},\"device\":null,\"steps_"
        "total\":1e300}\n",
        "{\"step\":1,\"loss\":3,\"step_ms\":1,\"device_busy\":0.5}\n{\"step\":2,\"loss\":3,\"step_ms\":1,"
        "\"device_busy\":0.5}\n",
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "odd%zu", i);
        const char *folder = put(name, all[i], i % 2 ? "{\"train\": {\"steps\": 10}}" : "{broken");
        CLT_FREED char *page = page_of(&folder, 1, NULL);
        assert_has(page, "</html>");
        assert_lacks(page, "nan");
        assert_lacks(page, "M-");
    }
}

TEST(many_events_are_thinned)
{
    clt_str metrics = {0};
    for (int i = 1; i <= 20000; i++)
        clt_str_printf(
            &metrics,
            "{\"step\":%d,\"loss\":1,\"skipped\":%d}\n{\"event\":\"sample\",\"step\":%d,\"prompt\":\"p\","
            "\"text\":\"t\"}\n"
            "{\"event\":\"saved\",\"step\":%d,\"path\":\"x\"}\n{\"event\":\"start\",\"step\":%d}\n",
            i, i, i, i, i);
    clt_str_append(&metrics, "{\"event\":\"failed\",\"step\":20000,\"message\":\"the only one\"}\n");
    assert_ok(clt_str_check(&metrics));
    const char *folder = put("many", metrics.text, NULL);
    clt_str_free(&metrics);
    CLT_FREED char *page = page_of(&folder, 1, NULL);
    assert_true(strlen(page) < 1000000);
    assert_has(page, "the only one");
    assert_has(page, "20001 sessions in all");
    assert_has(page, "step 20000</figcaption>");
}

/* --- what is found --- */

/* A language model, two classifiers and a regression on one page. */
TEST(unlike_runs_keep_their_units)
{
    static const char *const models[] = {
        "{\"model\": {\"type\": \"gpt\"}, \"data\": {\"type\": \"text\", \"tokenizer\": \"\"}}",
        "{\"model\": {\"type\": \"mlp\", \"loss\": \"cross_entropy\"}, \"data\": {\"type\": \"idx\"}}",
        "{\"model\": {\"type\": \"resnet\"}, \"data\": {\"type\": \"images\"}}",
        "{\"model\": {\"type\": \"mlp\", \"loss\": \"mse\"}, \"data\": {\"type\": \"csv\"}}"};
    const char *folders[4];
    for (int i = 0; i < 4; i++) {
        char name[32], metrics[600];
        double tokens = i == 0 ? 64e3 : 1e3;
        (void)snprintf(name, sizeof name, "unlike%d", i);
        int n = 0;
        for (int step = 1; step <= 2; step++)
            n += snprintf(
                metrics + n, sizeof metrics - (size_t)n,
                "{\"step\": %d, \"time\": %d, \"loss\": %g, \"tokens_per_s\": %g, \"samples_per_s\": 1000, "
                "\"step_ms\": 1}\n",
                step, step, 1.5 - 0.25 * i, tokens);
        folders[i] = strdup(put(name, metrics, models[i]));
    }
    char *page = page_of(folders, 4, NULL);
    assert_has(page, "<small>tokens/s</small>");
    assert_has(page, "<small>samples/s</small>");
    assert_has(page, "<th>tokens/s</th><th>samples/s</th>");
    assert_has(page, "<table class=\"runs\">");
    assert_lacks(page, "best\">0.75"); /* the regression has the lowest loss, and no run to compare with */
    assert_lacks(page, "best\">1.5");
    assert_has(page, "best\">1<"); /* the lower cross entropy of two */
    free(page);
    page = page_of(folders + 1, 2, NULL);
    assert_lacks(page, "tokens/s</");
    free(page);
    for (int i = 0; i < 4; i++)
        free((char *)folders[i]);
}

static clt_run_record *load(const char *name, const char *metrics, const char *config)
{
    clt_run_record *run;
    assert_ok(clt_run_record_load(put(name, metrics, config), &run));
    return run;
}

TEST(verdicts_are_found)
{
    static const struct {
        const char *metrics, *cause;
        clt_run_verdict verdict;
    } cases[] = {
        {"{\"event\":\"start\",\"step\":0}\n{\"step\":1,\"loss\":1}\n{\"event\":\"end\",\"step\":1}\n", "",
         CLT_RUN_FINISHED},
        {"{\"event\":\"start\",\"step\":0}\n{\"step\":1,\"loss\":1}\n{\"event\":\"stopped\",\"step\":1,"
         "\"reason\":\"SIGTERM\"}\n",
         "SIGTERM", CLT_RUN_INTERRUPTED},
        {"{\"event\":\"start\",\"step\":0}\n{\"event\":\"failed\",\"step\":1,\"code\":5,\"message\":\"no "
         "memory\"}\n",
         "no memory", CLT_RUN_FAILED},
        {"{\"event\":\"start\",\"step\":0}\n{\"step\":1,\"loss\":1}\n", "its process ended",
         CLT_RUN_ABANDONED},
        {"{\"event\":\"failed\",\"step\":1,\"message\":\"x\"}\n{\"event\":\"start\",\"step\":1}\n{\"step\":2,"
         "\"loss\":1}\n"
         "{\"event\":\"end\",\"step\":2}\n",
         "", CLT_RUN_FINISHED},
        {"{\"step\":100,\"loss\":1}\n", "", CLT_RUN_FINISHED}, /* an older program wrote no events */
        {"{\"step\":99,\"loss\":1}\n", "does not show", CLT_RUN_ABANDONED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clt_run_record *run = load("verdict", cases[i].metrics, "{\"train\": {\"steps\": 100}}");
        assert_int_equal(run->verdict, cases[i].verdict);
        assert_has(run->cause, cases[i].cause);
        clt_run_record_free(run);
    }
    char path[256], text[400], host[200] = {0};
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(path, sizeof path, "%s/verdict/lock", test_folder());
    (void)snprintf(text, sizeof text, "process %ld on host %s\n", (long)getpid(), host);
    assert_ok(clt_file_write(path, text, strlen(text)));
    clt_run_record *run = load("verdict", cases[3].metrics, NULL);
    assert_int_equal(run->verdict, CLT_RUN_RUNNING);
    clt_run_record_free(run);
}

TEST(the_seconds_of_all_sessions_count)
{
    CLT_SCOPED(clt_str) metrics = {0};
    for (int i = 0; i < 300; i++) /* more than the list of sessions holds */
        clt_str_printf(
            &metrics, "{\"event\":\"start\",\"step\":%d,\"time\":%d}\n{\"step\":%d,\"loss\":1,\"time\":%d}\n",
            i, 10000 * i, i + 1, 10000 * i + 3600);
    assert_ok(clt_str_check(&metrics));
    clt_run_record *run = load("long", metrics.text, NULL);
    assert_int_equal(run->session_total, 300);
    assert_true(clt_run_seconds(run) == 300 * 3600.0);
    clt_run_record_free(run);
}

TEST(sessions_and_curves_are_found)
{
    clt_run_record *run =
        load("sessions",
             "{\"event\":\"start\",\"step\":0,\"time\":100,\"device\":\"one\"}\n{\"step\":1,\"loss\":5,"
             "\"step_ms\":10,\"time\":101}\n"
             "{\"step\":2,\"loss\":4,\"skipped\":1,\"time\":102}\n{\"event\":\"stopped\",\"step\":2,\"time\":"
             "103,\"reason\":\"STOP\"}\n"
             "{\"event\":\"start\",\"step\":2,\"time\":200,\"device\":\"two\",\"resumed_from\":\"x\"}\n"
             "{\"step\":3,\"loss\":3,\"skipped\":3,\"eval_loss\":9,\"time\":201}\n{\"step\":3,\"eval_loss\":"
             "3.5,\"time\":202}\n",
             "{\"train\": {\"steps\": 5}, \"model\": {\"type\": \"gpt\"}}");
    assert_int_equal(run->session_count, 2);
    assert_int_equal(run->sessions[0].first_step, 1);
    assert_int_equal(run->sessions[0].last_step, 2);
    assert_int_equal(run->sessions[1].first_step, 3);
    assert_int_equal(run->steps_total, 5);
    assert_int_equal(run->skipped, 3);
    assert_true(run->skips.values == 2 && run->skips.last == 2);
    assert_true(clt_run_seconds(run) == 5);
    assert_true(run->curve[CLT_METRIC_LOSS].last == 3 && run->curve[CLT_METRIC_EVAL_LOSS].low == 3.5);
    assert_true(clt_run_is_language(run));
    clt_run_record_free(run);
}

TEST(configs_are_compared_with_defaults)
{
    clt_config_entries entries;
    clt_run_record *run =
        load("config", "",
             "{\"train\": {\"steps\": 5, \"seed\": 1337}, \"optimizer\": {\"beta2\": 999e-3}, "
             "\"odd\": {\"key\": [1, 2]}, \"_origin\": {\"train.steps\": \"file\"}}");
    assert_ok(clt_run_config_entries(run, &entries));
    assert_int_equal(entries.count, 4);
    assert_string_equal(clt_run_config_value(&entries, "odd.key"), "[1,2]");
    for (size_t i = 0; i < entries.count; i++) {
        bool preset = strcmp(entries.items[i].key, "train.seed") == 0 ||
                      strcmp(entries.items[i].key, "optimizer.beta2") == 0;
        assert_int_equal(entries.items[i].changed, !preset);
    }
    clt_run_config_entries_free(&entries);
    clt_run_record_free(run);
}

TEST(names_tell_runs_apart)
{
    clt_run_record *runs[3] = {load("a/x/run", "", NULL), load("b/x/run", "", NULL), load("other", "", NULL)};
    assert_ok(clt_run_names(runs, 3));
    assert_string_equal(runs[0]->name, "a/x/run");
    assert_string_equal(runs[1]->name, "b/x/run");
    assert_string_equal(runs[2]->name, "other");
    for (int i = 0; i < 3; i++)
        clt_run_record_free(runs[i]);
}

TEST(lines_are_drawn_as_they_should)
{
    clt_point points[] = {{0, 0}, {1, 10}, {2, NAN}, {3, 5}, {4, NAN}};
    clt_chart chart = {.title = "t", .first = 0, .last = 4};
    clt_chart_line line = {.name = "n", .count = 5};
    CLT_SCOPED(clt_str) out = {0};
    assert_ok(clt_alloc(&line.points, 5, sizeof *line.points, "points"));
    memcpy(line.points, points, sizeof points);
    clt_chart_add(&chart, line);
    assert_ok(clt_chart_draw(&chart, &out));
    /* a line of two points, a point alone, and two marks of what was not finite */
    assert_has(out.text, "d=\"M0 963l1000-926M3000 500h0\"");
    assert_has(out.text, "class=\"bad r0\" d=\"M2000 988h0M4000 988h0\"");
    clt_chart_free(&chart);
}

TEST(numbers_read_well)
{
    static const struct {
        void (*write)(clt_str *out, double value);
        double value;
        const char *text;
    } cases[] = {
        {clt_html_number, 2.30258, "2.303"},
        {clt_html_number, 0.0006, "0.0006"},
        {clt_html_number, 3.14e-7, "3.14e-07"},
        {clt_html_number, 12345, "12345"},
        {clt_html_number, NAN, "\xe2\x80\x93"},
        {clt_html_number, 0, "0"},
        {clt_html_count, 124439808, "124M"},
        {clt_html_count, 49700, "49.7k"},
        {clt_html_count, 999.6, "1k"},
        {clt_html_count, 950, "950"},
        {clt_html_bytes, 1610612736, "1.5 GiB"},
        {clt_html_bytes, 512, "512 B"},
        {clt_html_share, 0.97441, "97.44 %"},
        {clt_html_share, 1, "100 %"},
        {clt_html_duration, 185, "3 min 05 s"},
        {clt_html_duration, 8040, "2 h 14 min"},
        {clt_html_duration, 1e300, "\xe2\x80\x93"},
        {clt_html_time, 0, "1970-01-01 00:00:00 UTC"},
        {clt_html_time, 1e300, "\xe2\x80\x93"},
        {clt_html_percent, 0.12345, "12.35%"},
        {clt_html_percent, -1e300, "-100.00%"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_str) out = {0};
        cases[i].write(&out, cases[i].value);
        assert_string_equal(out.text, cases[i].text);
    }
}

TEST_PROGRAM(.fresh_folder = true);
