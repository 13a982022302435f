/* SPDX-License-Identifier: Apache-2.0
 *
 * Text and synthetic sources, and the order of samples. ctest-labels: quick */
#include "tests/unit/data/data_test.h"

#include <math.h>
#include <sys/stat.h>

#include "engine/base/log.h"

static void expect_window(const clt_source *source, int64_t index, const char *want)
{
    char got[64] = {0};
    size_t window = strlen(want) - 1;
    assert_int_equal(clt_source_field_bytes(&source->fields[0]), window);
    must_read(source, index, 0, got);
    must_read(source, index, 1, got + window);
    assert_string_equal(got, want);
}

TEST(test_text_files)
{
    put_text("a", "abcdefg");
    put_text("b", "hijklmnopqrst");
    put_gzip("c", "0123456789", 10);
    clt_source *source =
        must_open("\"type\":\"text\",\"path\":\"%D/a\",\"window\":3,\"split\":0", CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 4);
    assert_int_equal(source->n_fields, 2);
    assert_true(source->fields[0].is_index && source->fields[1].is_index);
    assert_int_equal(source->fields[0].dtype, CLT_U8);
    assert_int_equal(source->fields[1].shape.ndim, 0);
    assert_int_equal(source->fields[1].max_value, 'g');
    expect_window(source, 0, "abcd");
    expect_window(source, 3, "defg");
    char x[3];
    assert_int_equal(clt_source_read_field(source, 4, 0, x), CLT_EINTERNAL);
    assert_int_equal(clt_source_read_field(source, -1, 0, x), CLT_EINTERNAL);
    assert_ok(clt_source_check_bound(source, 0, 128, false, 0));
    assert_int_equal(clt_source_check_bound(source, 1, 'e', false, 0), CLT_EDATA);
    expect_words("/a'|window 1|byte 4 on|is 101|0 to 100");
    clt_source_close(source);
    /* several files, one of them packed, a window across two of them */
    source = must_open("\"type\":\"text\",\"path\":[\"%D/a\",\"%D/b\",\"%D/c\"],\"window\":4,\"split\":0.1",
                       CLT_SPLIT_TRAIN);
    assert_int_equal(source->bytes, 27);
    assert_int_equal(source->samples, 23);
    expect_window(source, 5, "fghij");
    expect_window(source, 22, "23456"); /* the last byte of this part is a target */
    assert_int_equal(clt_source_check_bound(source, 1, 'h', false, 0), CLT_EDATA);
    expect_words("/b'|byte 0 on|is 104");
    clt_source_close(source);
    source = must_open("\"type\":\"text\",\"path\":[\"%D/a\",\"%D/b\",\"%D/c\"],\"window\":2,\"split\":0.1",
                       CLT_SPLIT_EVAL);
    assert_int_equal(source->samples, 1); /* 30 bytes: 27 and 3, no byte in both */
    expect_window(source, 0, "789");
    clt_source_close(source);
}

/* A folder, a pattern, JSON Lines and a list of JSON, whose records stay whole. */
TEST(test_text_kinds)
{
    assert_int_equal(mkdir(in_dir("kinds"), 0700), 0);
    put_text("kinds/b.txt", "def");
    put_text("kinds/a.txt", "abc");
    clt_source *source =
        must_open("\"type\":\"text\",\"path\":\"%D/kinds\",\"window\":2,\"split\":0", CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 4);
    expect_window(source, 1, "bcd");
    clt_source_close(source);
    source =
        must_open("\"type\":\"text\",\"path\":\"%D/kinds/*.txt\",\"window\":2,\"split\":0", CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 4);
    clt_source_close(source);
    put_text("r.jsonl", "{\"text\":\"abcd\"}\n{\"text\":\"efghij\"}\n");
    expect_refused("\"type\":\"text\",\"path\":\"%D/r.jsonl\",\"window\":2", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "/r.jsonl|JSON Lines|data.json_key");
    source = must_open(
        "\"type\":\"text\",\"path\":\"%D/r.jsonl\",\"json_key\":\"text\",\"window\":2,\"split\":0.3",
        CLT_SPLIT_TRAIN);
    assert_int_equal(source->bytes, 4); /* 7 of 10 bytes lie inside the second record */
    clt_source_close(source);
    put_text("r.json", "[{\"text\":\"abcd\"},\n {\"text\":\"efghij\"}]");
    expect_refused("\"type\":\"text\",\"path\":\"%D/r.json\",\"window\":2", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "/r.json|list of JSON|data.json_key");
    source =
        must_open("\"type\":\"text\",\"path\":\"%D/r.json\",\"json_key\":\"text\",\"window\":2,\"split\":0.3",
                  CLT_SPLIT_TRAIN);
    assert_int_equal(source->bytes, 4);
    clt_source_close(source);
    put_text("r.json", "[{\"text\":\"abcd\"},\n {\"id\":1}]");
    expect_refused("\"type\":\"text\",\"path\":\"%D/r.json\",\"json_key\":\"text\",\"window\":2",
                   CLT_SPLIT_TRAIN, CLT_EDATA, "record 2|no member \"text\"");
}

TEST(test_text_list)
{
    char list[512];
    put_text("a", "abc");
    put_text("b", "def");
    (void)snprintf(list, sizeof list, "%s/a\r\n\n%s/b\n", test_folder(), test_folder());
    put_text("list", list);
    clt_source *source =
        must_open("\"type\":\"text\",\"path\":\"@%D/list\",\"window\":2,\"split\":0", CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 4);
    expect_window(source, 3, "def");
    assert_non_null(strstr(source->description, "/b'"));
    clt_source_close(source);
    /* evaluation files are given: the training text is not split */
#define OWN_EVAL "\"type\":\"text\",\"path\":\"%D/a\",\"eval_path\":\"%D/b\",\"window\":2"
    source = must_open(OWN_EVAL, CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 1);
    expect_window(source, 0, "abc");
    clt_source_close(source);
    source = must_open(OWN_EVAL, CLT_SPLIT_EVAL);
    assert_int_equal(source->samples, 1);
    expect_window(source, 0, "def");
    clt_source_close(source);

    put_text("list", "\n\n");
    expect_refused("\"type\":\"text\",\"path\":\"@%D/list\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "/list'|names no file");
    put_text("list", "/nowhere/x.txt\n");
    expect_refused("\"type\":\"text\",\"path\":\"@%D/list\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "line 1|/list'|/nowhere/x.txt'");
    put_file("list", "a\0b", 3);
    expect_refused("\"type\":\"text\",\"path\":\"@%D/list\"", CLT_SPLIT_TRAIN, CLT_EDATA, "NUL byte");
    expect_refused("\"type\":\"text\",\"path\":\"@%D/none\"", CLT_SPLIT_TRAIN, CLT_EDATA, "/none'");
    expect_refused("\"type\":\"text\",\"path\":\"@\"", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "path 1 of data.path is empty");
}

static void note_line(void *context, clt_log_level level, const char *line)
{
    if (level == CLT_LOG_WARN)
        (void)snprintf(context, 256, "%s", line);
}

TEST(test_text_bad)
{
    char warning[256] = "";
    put_text("a", "abcdefghij");
    put_text("empty", "");
    clt_log_set_sink(note_line, warning, CLT_LOG_WARN);
    expect_refused("\"type\":\"text\",\"path\":\"%D/empty\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "/empty'|not a single byte|data.path");
    assert_non_null(strstr(warning, "/empty' is empty"));
    warning[0] = '\0';
    clt_log_forget(); /* else the same warning is logged once */
    clt_source *source = must_open(
        "\"type\":\"text\",\"path\":[\"%D/empty\",\"%D/a\",\"%D/empty\",\"%D/a\"],\"window\":2,\"split\":0",
        CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 18);
    expect_window(source, 17, "hij");
    clt_source_close(source);
    assert_non_null(strstr(warning, "adds nothing"));
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);

    expect_refused("\"type\":\"text\",\"path\":\"%D/none\"", CLT_SPLIT_TRAIN, CLT_EDATA, "data.path|/none'");
    assert_int_equal(mkdir(in_dir("nothing"), 0700), 0);
    expect_refused("\"type\":\"text\",\"path\":\"%D/nothing\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "nothing' (data.path)|no file in it");
    expect_refused("\"type\":\"text\",\"path\":[]", CLT_SPLIT_TRAIN, CLT_ECONFIG, "data.path");
    expect_refused("\"type\":\"text\",\"path\":\"%D/a\",\"window\":10,\"split\":0", CLT_SPLIT_TRAIN,
                   CLT_EDATA, "10 bytes|/a'|too short|data.window|need 11");
    expect_refused("\"type\":\"text\",\"path\":\"%D/a\",\"window\":1,\"split\":0.1", CLT_SPLIT_EVAL,
                   CLT_EDATA, "evaluation part|1 bytes|data.split 0.1");
    expect_refused("\"type\":\"text\",\"path\":\"%D/a\",\"window\":4,\"split\":0", CLT_SPLIT_EVAL,
                   CLT_ECONFIG, "data.split is 0");
    put_file("a", "\x1f\x8b\x08", 3);
    expect_refused("\"type\":\"text\",\"path\":\"%D/a\"", CLT_SPLIT_TRAIN, CLT_EDATA, "/a'|gzip");

    clt_config *config = data_config("\"type\":\"text\",\"path\":\"x\",\"split\":0");
    assert_false(clt_source_has_eval(config));
    clt_config_destroy(config);
    config = data_config("\"type\":\"text\",\"path\":\"x\"");
    assert_true(clt_source_has_eval(config));
    clt_config_destroy(config);
}

/* nanoGPT's figures for a split of 1,115,394 characters at 90 %. */
TEST(test_text_split_figures)
{
    size_t size = 1115394;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    put_file("long", text, size);
    free(text);
    clt_source *source = must_open("\"type\":\"text\",\"path\":\"%D/long\",\"window\":1", CLT_SPLIT_TRAIN);
    assert_int_equal(source->bytes, 1003854);
    clt_source_close(source);
    source = must_open("\"type\":\"text\",\"path\":\"%D/long\",\"window\":1", CLT_SPLIT_EVAL);
    assert_int_equal(source->bytes, 111540);
    clt_source_close(source);
}

#define CLASSES "\"type\":\"synthetic\",\"shape\":[5,3],\"classes\":7,\"samples\":3000,\"noise\":0.3"

/* Nearest class mean, the means taken from the training samples, must recover nearly all labels of the
 * others. */
TEST(test_synthetic_classes)
{
    double mean[7][15] = {{0}};
    int64_t seen[7] = {0};
    float x[15], again[15];
    uint8_t y;
    clt_source *train = must_open(CLASSES, CLT_SPLIT_TRAIN), *other = must_open(CLASSES, CLT_SPLIT_TRAIN);
    CLT_SCOPED(clt_source) *eval = must_open(CLASSES, CLT_SPLIT_EVAL);
    assert_int_equal(train->fields[1].dtype, CLT_U8);
    assert_int_equal(train->fields[1].max_value, 6);
    for (int64_t i = 0; i < train->samples; i++) {
        must_read(train, i, 0, x);
        must_read(other, i, 0, again);
        assert_memory_equal(x, again, sizeof x);
        must_read(train, i, 1, &y);
        assert_true(y < 7);
        seen[y]++;
        for (int k = 0; k < 15; k++)
            mean[y][k] += (double)x[k];
    }
    int hits = 0, same = 0;
    for (int c = 0; c < 7; c++)
        assert_true(seen[c] > 300); /* 3000/7 = 428 */
    for (int64_t i = 0; i < eval->samples; i++) {
        double best = 1e30;
        int guess = -1;
        must_read(eval, i, 0, x);
        must_read(train, i, 0, again);
        same += memcmp(x, again, sizeof x) == 0;
        must_read(eval, i, 1, &y);
        for (int c = 0; c < 7; c++) {
            double distance = 0;
            for (int k = 0; k < 15; k++)
                distance += pow((double)x[k] - mean[c][k] / (double)seen[c], 2);
            if (distance < best) {
                best = distance;
                guess = c;
            }
        }
        hits += guess == y;
    }
    assert_int_equal(same, 0);
    assert_true(hits > 2900);
    int64_t count = 0;
    uint8_t scratch;
    must_read(train, 0, 1, &y);
    assert_ok(clt_source_count_valid(train, 0, (clt_draw){0}, 1, y, &scratch, &count));
    assert_int_equal(count, 0);
    assert_ok(clt_source_count_valid(train, 0, (clt_draw){0}, 1, -1, &scratch, &count));
    assert_int_equal(count, 1);
    clt_source_close(train);
    clt_source_close(other);
}

TEST(test_synthetic_many_classes)
{
    clt_source *wide =
        must_open("\"type\":\"synthetic\",\"shape\":[2],\"classes\":1000,\"samples\":2000", CLT_SPLIT_TRAIN);
    int32_t most = 0, label;
    assert_int_equal(wide->fields[1].dtype, CLT_I32);
    for (int64_t i = 0; i < wide->samples; i++) {
        must_read(wide, i, 1, &label);
        assert_true(label >= 0 && label < 1000);
        most = label > most ? label : most;
    }
    assert_true(most > 900);
    assert_ok(clt_source_check_bound(wide, 1, 1000, false, 0));
    assert_int_equal(clt_source_check_bound(wide, 1, 500, false, 0), CLT_EDATA);
    expect_words("out of range|0 to 499");
    clt_source_close(wide);
}

/* Without noise the targets are linear in x. The linear map is solved from as many samples as there are
 * inputs, and must then predict all others. */
TEST(test_synthetic_regression)
{
    enum { D = 5, T = 2 };
#define LINEAR                                                                                               \
    "\"type\":\"synthetic\",\"shape\":[5],\"classes\":0,\"target_shape\":[2],\"samples\":200,\"noise\":0"
    clt_source *source = must_open(LINEAR, CLT_SPLIT_TRAIN), *eval = must_open(LINEAR, CLT_SPLIT_EVAL);
    assert_int_equal(source->fields[1].dtype, CLT_F32);
    assert_false(source->fields[1].is_index);
    double a[D][D + T];
    float x[D], y[T];
    for (int i = 0; i < D; i++) {
        must_read(source, i, 0, x);
        must_read(source, i, 1, y);
        for (int k = 0; k < D; k++)
            a[i][k] = (double)x[k];
        for (int k = 0; k < T; k++)
            a[i][D + k] = (double)y[k];
    }
    for (int p = 0; p < D; p++) { /* Gauss-Jordan with row pivots */
        int best = p;
        for (int i = p + 1; i < D; i++)
            if (fabs(a[i][p]) > fabs(a[best][p]))
                best = i;
        for (int k = 0; k < D + T; k++) {
            double t = a[p][k];
            a[p][k] = a[best][k];
            a[best][k] = t;
        }
        assert_true(fabs(a[p][p]) > 1e-3);
        for (int i = 0; i < D; i++)
            for (int k = D + T - 1; i != p && k >= p; k--)
                a[i][k] -= a[i][p] / a[p][p] * a[p][k];
    }
    double square = 0;
    for (int64_t i = 0; i < eval->samples; i++) {
        must_read(eval, i, 0, x);
        must_read(eval, i, 1, y);
        for (int t = 0; t < T; t++) {
            double want = 0;
            for (int p = 0; p < D; p++)
                want += a[p][D + t] / a[p][p] * (double)x[p];
            assert_true(fabs(want - (double)y[t]) < 1e-4);
            square += want * want;
        }
    }
    assert_true(square / (double)(eval->samples * T) > 0.1); /* the targets are not close to zero */
    clt_source_close(source);
    clt_source_close(eval);
    expect_refused("\"type\":\"synthetic\",\"shape\":[100000],\"classes\":0,\"target_shape\":[100000]",
                   CLT_SPLIT_TRAIN, CLT_ECONFIG, "too large|data.target_shape");
    expect_refused("\"type\":\"synthetic\"", CLT_SPLIT_TRAIN, CLT_ECONFIG, "data.shape");
    clt_config *config = data_config("\"type\":\"synthetic\",\"shape\":[1]");
    assert_true(clt_source_has_eval(config));
    clt_config_destroy(config);
}

TEST(test_sample_index)
{
    enum { N = 101 };
    int64_t first[N];
    int moved = 0, differ = 0;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool seen[N] = {false};
        for (uint64_t i = 0; i < N; i++) {
            int64_t index = clt_sample_index(epoch * N + i, N, 42, true);
            assert_true(index >= 0 && index < N && !seen[index]);
            seen[index] = true;
            moved += index != (int64_t)i;
            if (epoch == 0)
                first[i] = index;
            else
                differ += index != first[i];
            assert_int_equal(index, clt_sample_index(epoch * N + i, N, 42, true));
            assert_int_equal(clt_sample_index(epoch * N + i, N, 42, false), i);
        }
    }
    assert_true(moved > 250 && differ > 150);
    assert_int_equal(clt_sample_index(UINT64_MAX, 1, 1, true), 0);
    assert_true(clt_sample_index(UINT64_MAX, INT64_MAX, 1, true) >= 0);
}
