/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * TensorBoard's event files, read by the test's own reader: checksums that cover every bit, records,
 * protobuf fields. A run writes the values of metrics.jsonl as f32; of a file truncated at any byte the
 * complete records are read; a full disk loses no record that was written. */
#include "tests/unit/test.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/crc32c.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/report/write/board.h"
#include "engine/report/write/rundir.h"
#include "engine/report/write/tfevents.h"

static char root[64], run[80];
static clt_config *config;
static int warnings;

static void count_warning(void *context, clt_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    warnings++;
}

FIXTURE(set_up)
{
    (void)snprintf(root, sizeof root, "/tmp/cltrain-test-events-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(run, sizeof run, "%s/run", root);
    warnings = 0;
    clt_log_set_sink(count_warning, NULL, CLT_LOG_WARN);
    signal(SIGXFSZ, SIG_IGN);
    return clt_config_parse("{\"model\": {\"type\": \"mlp\", \"hidden\": [8, 4]}, \"data\": {\"type\": "
                            "\"synthetic\", \"shape\": [4], \"classes\": 2}, \"train\": {\"steps\": 100}, "
                            "\"log\": {\"tensorboard\": true}}",
                            "test", NULL, 0, &config) == CLT_OK
               ? 0
               : -1;
}

FIXTURE(tear_down)
{
    clt_config_destroy(config);
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    return clt_remove_tree(root) == CLT_OK ? 0 : -1;
}

/* --- the reader --- */

static uint32_t slow_crc(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t in = (crc ^ (uint32_t)(p[i] >> bit)) & 1u;
            crc = in ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        }
    return ~crc;
}

static uint64_t le(const uint8_t *p, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)p[i] << 8 * i;
    return value;
}

static bool checked(const uint8_t *p, size_t n, const uint8_t *mask)
{
    uint32_t crc = slow_crc(p, n);
    return le(mask, 4) == (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u);
}

typedef struct bytes {
    const uint8_t *data;
    size_t size;
} bytes;

/* The next whole record; false: there is none. */
static bool next_record(bytes *file, bytes *record)
{
    if (file->size < 16 || !checked(file->data, 8, file->data + 8))
        return false;
    uint64_t length = le(file->data, 8);
    if (length > file->size - 16 || !checked(file->data + 12, length, file->data + 12 + length))
        return false;
    *record = (bytes){file->data + 12, length};
    file->data += length + 16;
    file->size -= length + 16;
    return true;
}

typedef struct field {
    int number, wire;
    uint64_t value; /* of numbers, as bits */
    bytes content;  /* of messages and strings */
} field;

static uint64_t varint(bytes *m)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(m->size > 0 && shift < 64);
        uint8_t b = *m->data++;
        m->size--;
        value |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return value;
    }
}

static bool next_field(bytes *m, field *f)
{
    if (m->size == 0)
        return false;
    uint64_t key = varint(m), size = 0;
    *f = (field){.number = (int)(key >> 3), .wire = (int)(key & 7)};
    if (f->wire == 0) {
        f->value = varint(m);
        return true;
    }
    size = f->wire == 1 ? 8 : f->wire == 5 ? 4 : varint(m);
    assert_true(f->wire == 1 || f->wire == 2 || f->wire == 5);
    assert_true(size <= m->size);
    if (f->wire == 2)
        f->content = (bytes){m->data, size};
    else
        f->value = le(m->data, (int)size);
    m->data += size;
    m->size -= size;
    return true;
}

/* The first field with this number; false: there is none. */
static bool find(bytes m, int number, field *f)
{
    while (next_field(&m, f))
        if (f->number == number)
            return true;
    return false;
}

static bool is_text(bytes b, const char *text)
{
    return b.size == strlen(text) && memcmp(b.data, text, b.size) == 0;
}

static bool contains(bytes b, const char *text)
{
    return memmem(b.data, b.size, text, strlen(text)) != NULL;
}

/* --- files --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the event files, in the order in which TensorBoard reads them. */
static int event_files(const char *folder, char *names[8])
{
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, "tfevents")) {
            assert_true(n < 8);
            assert_ok(clt_path_join(folder, e->d_name, &names[n++]));
        }
    closedir(dir);
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

static bytes newest_file(const char *folder)
{
    char *names[8], *data;
    size_t size;
    int n = event_files(folder, names);
    assert_true(n > 0);
    assert_ok(clt_file_read(names[n - 1], false, 0, CLT_EDATA, &data, &size));
    while (n > 0)
        free(names[--n]);
    return (bytes){(const uint8_t *)data, size};
}

/* The scalar of a tag at a step; false: there is none. */
static bool scalar_at(bytes file, const char *tag, int64_t step, float *value)
{
    bytes record;
    while (next_record(&file, &record)) {
        field f, at, v, name;
        if (!find(record, 2, &at) || (int64_t)at.value != step || !find(record, 5, &f))
            continue;
        bytes summary = f.content;
        while (next_field(&summary, &v))
            if (find(v.content, 1, &name) && is_text(name.content, tag) && find(v.content, 2, &f)) {
                uint32_t bits = (uint32_t)f.value;
                memcpy(value, &bits, sizeof bits);
                return true;
            }
    }
    return false;
}

static float value_at(bytes file, const char *tag, int64_t step)
{
    float value = -1;
    if (!scalar_at(file, tag, step, &value))
        fail_msg("no point of %s at step %lld", tag, (long long)step);
    return value;
}

/* --- tests --- */

TEST(checksum_is_crc32c)
{
    uint8_t text[97];
    assert_int_equal(clt_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(clt_crc32c("", 0), 0);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 37 + 11);
    for (size_t n = 0; n <= sizeof text; n++)
        assert_int_equal(clt_crc32c(text, n), slow_crc(text, n));
}

static clt_step_metrics metrics_of(int64_t step)
{
    double x = 1.0 / (double)step;
    return (clt_step_metrics){.step = step,
                              .loss = x * 3,
                              .grad_norm = x * 5,
                              .lr = 1e-3 * x,
                              .loss_scale = 65536,
                              .accuracy = NAN,
                              .step_ms = (double)step * 7.125,
                              .samples_per_s = 1e5 * x,
                              .tokens_per_s = NAN,
                              .device_busy = 0.5,
                              .h2d_gbs = NAN,
                              .d2h_gbs = INFINITY,
                              .device_bytes = 123456789,
                              .time = 1.7e9 + (double)step};
}

static void write_session(int64_t first, int64_t last, bool resume)
{
    clt_rundir *dir;
    const clt_event_field fields[] = {CLT_FIELD_TEXT("device", "<script>alert(1)</script>\n# \xff device"),
                                      CLT_FIELD_INT("ranks", 1)};
    assert_ok(clt_rundir_open(run, config, resume, &dir));
    if (resume)
        assert_ok(clt_rundir_truncate(dir, first));
    assert_ok(
        clt_rundir_event(dir, "warning", -1, &(clt_event_field)CLT_FIELD_TEXT("text", "from before"), 1));
    assert_ok(clt_rundir_event(dir, "start", first, fields, 2));
    for (int64_t step = first + 1; step <= last; step++) {
        clt_step_metrics m = metrics_of(step);
        assert_ok(clt_rundir_step(dir, &m));
    }
    clt_eval_metrics eval = {.step = last, .loss = 0.3, .accuracy = 0.75, .samples = 10, .seconds = 0.1};
    assert_ok(clt_rundir_eval(dir, &eval));
    clt_rundir_close(dir);
}

TEST_BETWEEN(run_is_written_as_in_metrics, set_up, tear_down)
{
    bytes record, file, all;
    field f, g;
    float value;
    write_session(0, 5, false);
    all = file = newest_file(run);
    /* version; start of the session at step 0; description of the run; texts from before the start */
    assert_true(next_record(&file, &record) && find(record, 3, &f) && is_text(f.content, "brain.Event:2"));
    assert_true(next_record(&file, &record) && find(record, 7, &f) && find(f.content, 1, &g));
    assert_int_equal(g.value, 1);
    assert_true(find(record, 2, &f) && f.value == 0);
    assert_true(next_record(&file, &record) && contains(record, "_hparams_/session_start_info"));
    assert_true(contains(record, "optimizer.learning_rate") && contains(record, "8, 4"));
    assert_false(contains(record, "data.path"));
    assert_true(next_record(&file, &record) && contains(record, "    text: from before"));
    /* texts: indented so that no line counts as Markdown, and all of them UTF-8 */
    assert_true(next_record(&file, &record) && contains(record, "**start**"));
    assert_true(contains(record, "\n    device: <script>") &&
                contains(record, "\n    # \xef\xbf\xbd device"));
    for (int64_t step = 1; step <= 5; step++) {
        clt_step_metrics m = metrics_of(step);
        assert_true(value_at(all, "train/loss", step) == (float)m.loss);
        assert_true(value_at(all, "train/lr", step) == (float)m.lr);
        assert_true(value_at(all, "speed/step_ms", step) == (float)m.step_ms);
        assert_true(value_at(all, "device/memory_bytes", step) == 123456789.0f);
        assert_false(scalar_at(all, "train/accuracy", step, &value)); /* not known: no point */
        assert_false(scalar_at(all, "device/h2d_gbs", step, &value));
    }
    assert_true(value_at(all, "eval/loss", 5) == 0.3f && value_at(all, "eval/accuracy", 5) == 0.75f);
    assert_int_equal(warnings, 0);
    free((void *)(uintptr_t)all.data);
}

TEST_BETWEEN(times_are_those_of_the_steps, set_up, tear_down)
{
    bytes record, file, all;
    field f;
    int found = 0;
    write_session(0, 3, false);
    all = file = newest_file(run);
    while (next_record(&file, &record)) {
        double time;
        assert_true(find(record, 1, &f));
        memcpy(&time, &f.value, sizeof time);
        found += time == 1.7e9 + 2;
    }
    assert_int_equal(found, 1);
    free((void *)(uintptr_t)all.data);
}

/* A file truncated at any byte: all complete records before the cut are read, and nothing else. */
TEST_BETWEEN(cut_files_are_read_up_to_the_cut, set_up, tear_down)
{
    size_t ends[64], n = 0;
    bytes record;
    write_session(0, 4, false);
    bytes file = newest_file(run), rest = file;
    while (next_record(&rest, &record)) {
        assert_true(n < 64);
        ends[n++] = file.size - rest.size;
    }
    assert_int_equal(rest.size, 0);
    for (size_t cut = 0, whole = 0; cut <= file.size; cut++) {
        bytes part = {file.data, cut};
        size_t got = 0;
        while (whole < n && ends[whole] <= cut)
            whole++;
        while (next_record(&part, &record))
            got++;
        assert_int_equal(got, whole);
    }
    free((void *)(uintptr_t)file.data);
}

/* The file of each session sorts after the previous one, whatever the clock says, and begins at the
 * session's first step. */
TEST_BETWEEN(sessions_follow_each_other, set_up, tear_down)
{
    char *names[8], far[160];
    field f;
    bytes record;
    write_session(0, 4, false);
    write_session(2, 6, true); /* in the same second */
    assert_int_equal(event_files(run, names), 2);
    assert_true(strcmp(names[0], names[1]) < 0);
    free(names[0]);
    free(names[1]);
    bytes file = newest_file(run), rest = file;
    assert_true(next_record(&rest, &record) && next_record(&rest, &record) && find(record, 7, &f));
    assert_true(find(record, 2, &f) && f.value == 3);
    assert_true(value_at(file, "train/loss", 3) == 1.0f);
    free((void *)(uintptr_t)file.data);
    /* a file from another machine, whose clock is ahead */
    (void)snprintf(far, sizeof far, "%s/events.out.tfevents.4000000000.zz.1.0", run);
    assert_ok(clt_file_write(far, "", 0));
    write_session(6, 7, true);
    int n = event_files(run, names);
    assert_int_equal(n, 4);
    assert_non_null(strstr(names[3], "tfevents.4000000001."));
    while (n > 0)
        free(names[--n]);
}

TEST_BETWEEN(not_asked_for_no_file, set_up, tear_down)
{
    char *names[8];
    assert_ok(clt_config_set(config, "log.tensorboard", "false"));
    write_session(0, 2, false);
    assert_int_equal(event_files(run, names), 0);
}

/* A run that is stopped before its first step leaves no folder. */
TEST_BETWEEN(discarded_runs_leave_nothing, set_up, tear_down)
{
    clt_rundir *dir;
    assert_ok(clt_rundir_open(run, config, false, &dir));
    assert_ok(clt_rundir_event(dir, "start", 0, NULL, 0));
    assert_ok(clt_rundir_flush(dir));
    assert_true(clt_is_directory(run));
    clt_rundir_discard(dir);
    assert_false(clt_is_directory(run));
}

/* While the file cannot grow, the run continues and warns once; all records are written when the file can
 * grow again. */
TEST_BETWEEN(full_disk_costs_nothing, set_up, tear_down)
{
    struct rlimit before, small;
    clt_tfevents *file;
    CLT_SCOPED(clt_str) event = {0};
    char text[256];
    bytes record;
    int count = 0;
    assert_ok(clt_mkdir_p(run));
    assert_ok(clt_tfevents_create(run, &file));
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1000;
    clt_str_append(&event, "0123456789");
    clt_tfevents_add(file, &event);
    clt_tfevents_flush(file);
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 0; i < 200; i++) {
        clt_str_append(&event, "0123456789");
        clt_tfevents_add(file, &event);
        if (i % 50 == 0)
            clt_tfevents_flush(file);
    }
    assert_string_equal(clt_error_text(), "");
    clt_tfevents_flush(file);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_true(clt_tfevents_trouble(file, text, sizeof text));
    assert_false(clt_tfevents_trouble(file, text, sizeof text));
    bytes part = newest_file(run), rest = part;
    while (next_record(&rest, &record))
        count++;
    assert_int_equal(rest.size, 0); /* no half record */
    assert_true(count >= 2 && count < 202);
    free((void *)(uintptr_t)part.data);
    clt_tfevents_close(file);
    part = rest = newest_file(run);
    for (count = 0; next_record(&rest, &record);)
        count++;
    assert_int_equal(rest.size, 0);
    assert_int_equal(count, 202);
    free((void *)(uintptr_t)part.data);
}

/* Lines of fast steps are written together, but soon: at the next event, or after a moment. */
TEST_BETWEEN(lines_are_not_kept_long, set_up, tear_down)
{
    clt_rundir *dir;
    char path[128], *text;
    size_t size;
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    assert_ok(clt_rundir_open(run, config, false, &dir));
    for (int64_t step = 1; step <= 50; step++) {
        clt_step_metrics m = metrics_of(step);
        assert_ok(clt_rundir_step(dir, &m));
    }
    for (int way = 0; way < 2; way++) {
        clt_step_metrics m = metrics_of(51 + way);
        assert_ok(clt_rundir_step(dir, &m));
        if (way == 0)
            assert_ok(clt_rundir_event(dir, "saved", -1, NULL, 0));
        else
            clt_rundir_poll(dir);
        assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &text, &size));
        assert_non_null(strstr(text, way ? "{\"step\":52," : "{\"step\":51,"));
        assert_int_equal(text[size - 1], '\n');
        free(text);
    }
    clt_step_metrics last = metrics_of(53);
    assert_ok(clt_rundir_step(dir, &last));
    clt_rundir_close(dir);
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &text, &size));
    assert_non_null(strstr(text, "{\"step\":53,"));
    free(text);
}

/* The cost of printing only the numbers of a step, in seconds of processor time. */
static double cost_of_printing(int steps)
{
    double start = clt_thread_cpu();
    size_t used = 0;
    for (int64_t step = 1; step <= steps; step++) {
        char text[512];
        clt_step_metrics m = metrics_of(step);
        const double number[] = {m.loss,          m.grad_norm,    m.lr,          m.loss_scale,
                                 m.step_ms,       m.device_busy,  m.time,        (double)m.device_bytes,
                                 m.samples_per_s, (double)m.step, m.tokens_per_s};
        for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
            used += (size_t)snprintf(text, sizeof text, "%.9g", number[i]);
    }
    assert_true(used > 0);
    return (clt_thread_cpu() - start) / steps;
}

/* What a step's line and its event cost the main thread, as a multiple of the cost of printing the numbers:
 * where printing takes 2 us, 3 % of a step of 1 ms are 30 us. The limit leaves room for sanitizers; the
 * measured value is printed. */
TEST_BETWEEN(a_step_costs_little, set_up, tear_down)
{
    enum { STEPS = 5000, MOST = 40 };
    clt_rundir *dir;
    double unit = cost_of_printing(STEPS);
    assert_ok(clt_rundir_open(run, config, false, &dir));
    assert_ok(clt_rundir_event(dir, "start", 0, NULL, 0));
    double start = clt_thread_cpu();
    for (int64_t step = 1; step <= STEPS; step++) {
        clt_step_metrics m = metrics_of(step);
        assert_ok(clt_rundir_step(dir, &m));
    }
    double each = (clt_thread_cpu() - start) / STEPS;
    clt_rundir_close(dir);
    printf(
        "metrics.jsonl and event file: %.1f us of CPU a step, %.1f times what printing its numbers costs\n",
        each * 1e6, each / unit);
    assert_true(each < MOST * unit);
}

/* The folder cannot be written to any more: training continues without events. */
TEST_BETWEEN(no_file_no_failure, set_up, tear_down)
{
    clt_board *board;
    char text[4096];
    char gone[128];
    (void)snprintf(gone, sizeof gone, "%s/gone", root);
    assert_ok(clt_board_create(gone, config, &board));
    clt_step_metrics m = metrics_of(1);
    clt_board_step(board, &m); /* before the start nothing is written */
    clt_board_start(board, 0);
    clt_board_step(board, &m);
    clt_board_event(board, "end", 1, 0, "");
    assert_true(clt_board_trouble(board, text, sizeof text));
    assert_non_null(strstr(text, "continues without"));
    assert_false(clt_board_trouble(board, text, sizeof text));
    clt_board_close(board);
}

TEST(histograms_count_every_value)
{
    float values[1000];
    clt_histogram h;
    for (int i = 0; i < 1000; i++)
        values[i] = (float)((i * 7919) % 1000) / 1000.0f - 0.25f;
    clt_histogram_of(values, 1000, 2.0, &h);
    assert_int_equal(h.finite, 1000);
    uint64_t sum = 0;
    for (int b = 0; b < CLT_HISTOGRAM_BINS; b++) {
        uint64_t expected = 0;
        for (int i = 0; i < 1000; i++) {
            double v = 2.0 * (double)values[i];
            expected += v >= clt_histogram_edge(&h, b) &&
                        (v < clt_histogram_edge(&h, b + 1) || (b == CLT_HISTOGRAM_BINS - 1 && v <= h.high));
        }
        assert_int_equal(h.count[b], expected);
        sum += h.count[b];
    }
    assert_int_equal(sum, 1000);
    values[3] = NAN;
    values[4] = -INFINITY;
    clt_histogram_of(values, 1000, 1.0, &h);
    assert_true(h.finite == 998 && h.other == 2 && isfinite(h.low) && isfinite(h.high));
    for (int i = 0; i < 10; i++)
        values[i] = -FLT_MAX * (float)(i % 2 ? 1 : -1);
    clt_histogram_of(values, 10, 1.0, &h);
    assert_true(h.count[0] == 5 && h.count[CLT_HISTOGRAM_BINS - 1] == 5);
    for (int i = 0; i < 10; i++)
        values[i] = 0;
    clt_histogram_of(values, 10, 1.0, &h);
    assert_true(h.count[CLT_HISTOGRAM_BINS - 1] == 10);
    clt_histogram_of(values, 0, 1.0, &h);
    assert_true(h.finite == 0 && h.other == 0);
}

TEST_BETWEEN(histograms_are_written, set_up, tear_down)
{
    clt_rundir *dir;
    clt_histogram h;
    const float values[] = {1, 2, 3, 4};
    field f, g;
    bytes record;
    bool found = false;
    clt_histogram_of(values, 4, 1.0, &h);
    assert_ok(clt_rundir_open(run, config, false, &dir));
    assert_ok(clt_rundir_event(dir, "start", 0, NULL, 0));
    clt_rundir_histogram(dir, "gradients/w", 1, &h);
    clt_rundir_close(dir);
    bytes file = newest_file(run), rest = file;
    while (next_record(&rest, &record) && !found) {
        if (!contains(record, "gradients/w") || !find(record, 5, &f) || !find(f.content, 1, &g))
            continue;
        bytes value = g.content;
        assert_true(find(value, 9, &f) && contains(f.content, "histograms"));
        assert_true(find(value, 8, &f) && find(f.content, 4, &g)); /* tensor_content */
        assert_int_equal(g.content.size, CLT_HISTOGRAM_BINS * 3 * 8);
        double cell[3], total = 0;
        for (int b = 0; b < CLT_HISTOGRAM_BINS; b++) {
            memcpy(cell, g.content.data + 24 * b, sizeof cell);
            assert_true(cell[0] <= cell[1]);
            total += cell[2];
        }
        assert_true(total == 4 && cell[1] == 4.0);
        found = true;
    }
    assert_true(found);
    free((void *)(uintptr_t)file.data);
}
