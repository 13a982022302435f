/* SPDX-License-Identifier: Apache-2.0
 *
 * Token shards and sequences of text: positions of the windows, shards as one stream, ids that are checked
 * before use, files that are not shards, preparing and verifying folders. ctest-labels: quick */
#include "tests/unit/data/tokenizer_test.h"

#include <sys/stat.h>

#include "engine/data/open/synthetic_like.h"
#include "engine/data/tokens/prepare.h"
#include "engine/data/tokens/sequence.h"
#include "engine/data/tokens/token_shard.h"

/* --- windows --- */

TEST(test_geometry)
{
    for (int64_t tokens = 0; tokens < 60; tokens++)
        for (int64_t context = 1; context < 20; context++) {
            clt_sequence s = clt_sequence_make(tokens, context, CLT_SPLIT_TRAIN, true);
            assert_int_equal(s.samples, tokens > context ? tokens - context : 0);
            for (int64_t i = 0; i < s.samples; i++)
                assert_true(clt_sequence_begin(&s, i) == i && clt_sequence_counted(&s, i) == 0);
            s = clt_sequence_make(tokens, context, CLT_SPLIT_TRAIN, false);
            assert_int_equal(s.samples, tokens > context ? (tokens - 1) / context : 0);
            for (int64_t i = 0; i < s.samples; i++)
                assert_true(clt_sequence_begin(&s, i) == i * context && clt_sequence_counted(&s, i) == 0 &&
                            i * context + context < tokens);
            /* evaluation: every token but the first is a target exactly once */
            int seen[60] = {0};
            s = clt_sequence_make(tokens, context, CLT_SPLIT_EVAL, true);
            assert_true((s.samples > 0) == (tokens > context));
            for (int64_t i = 0; i < s.samples; i++)
                for (int64_t k = clt_sequence_counted(&s, i); k < context; k++)
                    seen[clt_sequence_begin(&s, i) + k + 1]++;
            for (int64_t t = 0; t < tokens && s.samples > 0; t++)
                assert_int_equal(seen[t], t > 0);
        }
}

static clt_status open_model(const char *model, const char *members, clt_split split, clt_source **out)
{
    char text[2048];
    clt_config *config = NULL;
    char data[1024];
    size_t used = 0;
    *out = NULL;
    for (const char *at = members; *at; at++) {
        if (at[0] == '%' && at[1] == 'D') {
            used += (size_t)snprintf(data + used, sizeof data - used, "%s", test_folder());
            at++;
        } else {
            data[used++] = *at;
        }
    }
    data[used] = '\0';
    (void)snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"graph\",\"layers\":[{\"op\":\"flatten\"}]%s},\"train\":{\"steps\":1},"
        "\"data\":{%s}}",
        model, data);
    CLT_TRY(clt_config_parse(text, "test", NULL, 0, &config));
    clt_status status = clt_source_open(config, split, out);
    clt_config_destroy(config);
    return status;
}

static clt_source *must_model(const char *model, const char *members, clt_split split)
{
    clt_source *source = NULL;
    if (open_model(model, members, split, &source) != CLT_OK)
        fail_msg("%s", clt_error_text());
    assert_non_null(source->description);
    assert_int_equal(source->fields[1].dtype, CLT_I32);
    return source;
}

static void bad(const char *members, clt_split split, clt_status code, const char *words)
{
    clt_source *source = NULL;
    clt_error_clear();
    clt_status status = open_model(",\"context\":4", members, split, &source);
    if (status != code)
        fail_msg("%s for %s: %s", clt_status_name(status), members, clt_error_text());
    assert_null(source);
    expect_words(words);
}

static void expect_y(const clt_source *source, int64_t index, const int32_t *want, size_t count)
{
    int32_t y[16];
    must_read(source, index, 1, y);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(y[i], want[i]);
}

TEST(test_text_sequences)
{
    put_file("a", "abcdefghijklmnopqrst", 20);
    clt_source *s =
        must_model(",\"context\":4", "\"type\":\"text\",\"path\":\"%D/a\",\"split\":0.5", CLT_SPLIT_TRAIN);
    char x[4];
    assert_int_equal(s->samples, 6); /* windows begin at 0..5 of the ten bytes a..j */
    assert_int_equal(s->fields[0].dtype, CLT_U8);
    assert_int_equal(s->fields[0].max_value, 255); /* not the largest value of this part */
    must_read(s, 5, 0, x);
    assert_memory_equal(x, "fghi", 4);
    expect_y(s, 5, (int32_t[]){'g', 'h', 'i', 'j'}, 4);
    assert_int_equal(clt_source_read_field(s, 6, 0, x), CLT_EINTERNAL);
    assert_int_equal(s->type->count_valid(s, 0, 1, -1), 4);
    assert_int_equal(s->type->count_valid(s, 0, 1, 'c'), 3);
    assert_int_equal(s->type->count_valid(s, 0, 0, 'c'), 3);
    assert_ok(clt_source_check_bound(s, 0, 256, false, 0));
    assert_int_equal(clt_source_check_bound(s, 1, 106, false, 0), CLT_EDATA);
    expect_words("token 9 is 106|0 to 105|model.vocab");
    assert_ok(clt_source_check_bound(s, 1, 107, false, 0)); /* a..j */
    assert_ok(clt_source_scan(s));
    clt_source_close(s);
    s = must_model(",\"context\":4", "\"type\":\"text\",\"path\":\"%D/a\",\"split\":0.5,\"shuffle\":false",
                   CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, 2);
    expect_y(s, 1, (int32_t[]){'f', 'g', 'h', 'i'}, 4);
    clt_source_close(s);
    s = must_model(",\"context\":4", "\"type\":\"text\",\"path\":\"%D/a\",\"split\":0.5", CLT_SPLIT_EVAL);
    assert_int_equal(s->samples, 3); /* nine targets of k..t */
    expect_y(s, 0, (int32_t[]){'l', 'm', 'n', 'o'}, 4);
    expect_y(s, 2, (int32_t[]){-1, -1, -1, 't'}, 4);
    must_read(s, 2, 0, x);
    assert_memory_equal(x, "pqrs", 4);
    assert_int_equal(s->type->count_valid(s, 2, 1, -1), 1);
    assert_int_equal(s->type->count_valid(s, 2, 0, -1), 4);
    assert_ok(clt_source_check_bound(s, 1, 256, true, -1));
    assert_int_equal(clt_source_check_bound(s, 1, 256, false, 0), CLT_ECONFIG);
    expect_words("3 targets|ignore_index -1");
    assert_ok(clt_source_check_bound(s, 0, 256, false, 0));
    clt_source_close(s);
    bad("\"type\":\"text\",\"path\":\"%D/a\",\"split\":0.2", CLT_SPLIT_EVAL, CLT_EDATA,
        "evaluation part|4 bytes|model.context|need 5");
}

TEST(test_text_tokens)
{
    size_t size;
    CLT_FREED char *text = long_text(40, &size);
    clt_tokenizer *t = small_tokenizer();
    assert_ok(clt_tokenizer_save(t, in_dir("tok.json")));
    put_file("a", text, size);
#define TOK "\"type\":\"text\",\"path\":\"%D/a\",\"tokenizer\":\"%D/tok.json\",\"split\":0.1"
    clt_source *train = must_model(",\"context\":8", TOK, CLT_SPLIT_TRAIN);
    clt_source *eval = must_model(",\"context\":8", TOK, CLT_SPLIT_EVAL);
    size_t cut = (size_t)((double)size * 0.9);
    while (((uint8_t)text[cut] & 0xc0) == 0x80) /* cut between characters */
        cut--;
    clt_ids ids = encode_all(t, text, cut), rest = encode_all(t, text + cut, size - cut);
    assert_int_equal(train->samples, ids.count - 8);
    assert_int_equal(train->fields[0].dtype, CLT_U16);
    assert_int_equal(train->fields[0].max_value, clt_tokenizer_vocab(t) - 1);
    uint16_t x[8];
    for (int64_t i = 0; i < train->samples; i += 97) {
        must_read(train, i, 0, x);
        for (int k = 0; k < 8; k++)
            assert_int_equal(x[k], ids.id[i + k]);
        expect_y(train, i, (int32_t[]){(int32_t)ids.id[i + 1], (int32_t)ids.id[i + 2]}, 2);
    }
    assert_int_equal(eval->samples, (rest.count - 2) / 8 + 1);
    must_read(eval, 0, 0, x);
    assert_int_equal(x[0], rest.id[0]);
    assert_int_equal(clt_source_check_bound(train, 0, 64, false, 0), CLT_EDATA);
    clt_source_close(train);
    clt_source_close(eval);
    /* windows of data.window tokens, without model.context */
    clt_source *windows = NULL;
    assert_ok(open_model("", TOK ",\"window\":5", CLT_SPLIT_TRAIN, &windows));
    assert_int_equal(windows->samples, ids.count - 5);
    must_read(windows, 7, 0, x);
    assert_int_equal(x[4], ids.id[11]);
    must_read(windows, 7, 1, x);
    assert_int_equal(x[0], ids.id[12]);
    assert_int_equal(windows->fields[1].dtype, CLT_U16);
    assert_int_equal(windows->fields[1].shape.ndim, 0);
    clt_source_close(windows);
    bad("\"type\":\"text\",\"path\":\"%D/a\",\"tokenizer\":\"%D/none\"", CLT_SPLIT_TRAIN, CLT_EDATA,
        "data.tokenizer|/none");
    clt_tokenizer_close(t);
    free(ids.id);
    free(rest.id);
}

/* --- shards --- */

static const char *put_u16(const char *name, const uint16_t *tokens, size_t count, bool header)
{
    uint8_t bytes[CLT_SHARD_HEADER + 4096];
    size_t start = header ? CLT_SHARD_HEADER : 0;
    if (header)
        clt_shard_write_header(bytes, 2, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        bytes[start + 2 * i] = (uint8_t)tokens[i];
        bytes[start + 2 * i + 1] = (uint8_t)(tokens[i] >> 8);
    }
    return put_file(name, bytes, start + 2 * count);
}

static const char *put_u32(const char *name, const uint32_t *tokens, size_t count)
{
    uint8_t bytes[CLT_SHARD_HEADER + 4096];
    clt_shard_write_header(bytes, 4, (int64_t)count);
    for (size_t i = 0; i < 4 * count; i++)
        bytes[CLT_SHARD_HEADER + i] = (uint8_t)(tokens[i / 4] >> (8 * (i % 4)));
    return put_file(name, bytes, CLT_SHARD_HEADER + 4 * count);
}

/* Token i of the stream in these tests is 100 + i. */
static void put_stream(const char *name, uint16_t first, size_t count, bool header)
{
    uint16_t tokens[64];
    for (size_t i = 0; i < count; i++)
        tokens[i] = (uint16_t)(100 + first + i);
    put_u16(name, tokens, count, header);
}

static void expect_stream(const clt_source *s, int64_t total)
{
    int64_t context = s->fields[0].shape.dim[0];
    assert_int_equal(s->samples, total - context);
    for (int64_t i = 0; i < s->samples; i++) {
        uint16_t x[16];
        int32_t y[16];
        must_read(s, i, 0, x);
        must_read(s, i, 1, y);
        for (int64_t k = 0; k < context; k++) {
            assert_int_equal(x[k], 100 + i + k);
            assert_int_equal(y[k], 101 + i + k);
        }
    }
}

TEST(test_shards)
{
    put_stream("train_000.bin", 0, 10, true);
    put_stream("train_001.bin", 10, 0, true); /* empty shards are skipped */
    put_stream("train_002.bin", 10, 3, true);
    put_stream("train_003.bin", 13, 20, false);
    put_stream("val_000.bin", 0, 11, true);
    put_stream(".train_009.bin", 50, 7, true); /* hidden: does not count */
    static const char *const ways[] = {
        "\"type\":\"tokens\",\"path\":\"%D\"", "\"type\":\"tokens\",\"path\":\"%D/train_*.bin\"",
        "\"type\":\"tokens\",\"path\":[\"%D/train_000.bin\",\"%D/train_001.bin\",\"%D/train_00[23].bin\"]",
        "\"type\":\"tokens\",\"path\":\"@%D/list\""};
    char list[1024];
    (void)snprintf(list, sizeof list, "%s/train_00[01].bin\n\n%s/train_002.bin\n%s/train_003.bin\n",
                   test_folder(), test_folder(), test_folder());
    put_file("list", list, strlen(list));
    for (int i = 0; i < 4; i++) {
        CLT_SCOPED(clt_source) *s = must_model(",\"context\":7", ways[i], CLT_SPLIT_TRAIN);
        assert_int_equal(s->fields[0].dtype, CLT_U16);
        assert_int_equal(s->fields[0].max_value, -1);
        expect_stream(s, 33);
        assert_ok(clt_source_scan(s));
        assert_int_equal(s->type->count_valid(s, 5, 1, -1), 7);
        assert_int_equal(s->type->count_valid(s, 5, 1, 110), 6);
        assert_non_null(strstr(s->description, "tokens: 33 of "));
    }
    /* the folder's own evaluation shards: 10 targets in windows of 7 */
    clt_source *s = must_model(",\"context\":7", ways[0], CLT_SPLIT_EVAL);
    assert_int_equal(s->samples, 2);
    expect_y(s, 0, (int32_t[]){101, 102, 103, 104, 105, 106, 107}, 7);
    expect_y(s, 1, (int32_t[]){-1, -1, -1, -1, 108, 109, 110}, 7);
    assert_int_equal(clt_source_check_bound(s, 1, 1000, false, 0), CLT_ECONFIG);
    assert_ok(clt_source_check_bound(s, 1, 1000, true, -1));
    clt_source_close(s);
    s = must_model(",\"context\":7", "\"type\":\"tokens\",\"path\":\"%D/train_000.bin\",\"eval_path\":\"%D\"",
                   CLT_SPLIT_EVAL);
    assert_int_equal(s->samples, 2);
    clt_source_close(s);
    s = must_model(",\"context\":7", "\"type\":\"tokens\",\"path\":\"%D\",\"shuffle\":false",
                   CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, 4);
    clt_source_close(s);
    bad("\"type\":\"tokens\",\"path\":\"%D/train_000.bin\"", CLT_SPLIT_EVAL, CLT_ECONFIG, "data.eval_path");
    bad("\"type\":\"tokens\",\"path\":\"%D/none_*.bin\"", CLT_SPLIT_TRAIN, CLT_EDATA,
        "none_|no file matches");
    bad("\"type\":\"tokens\",\"path\":\"%D/none.bin\"", CLT_SPLIT_TRAIN, CLT_EDATA, "none.bin|No such file");
    bad("\"type\":\"tokens\",\"path\":\"%D\",\"eval_path\":\"%D/none.bin\"", CLT_SPLIT_EVAL, CLT_EDATA,
        "data.eval_path|none.bin|No such file");
    bad("\"type\":\"tokens\",\"path\":\"\"", CLT_SPLIT_TRAIN, CLT_ECONFIG, "data.path|empty");
    assert_int_equal(mkdir(in_dir("bare"), 0700), 0);
    bad("\"type\":\"tokens\",\"path\":\"%D/bare\"", CLT_SPLIT_TRAIN, CLT_EDATA, "bare|*train*.bin|pattern");
    bad("\"type\":\"tokens\",\"path\":\"%D/train_001.bin\"", CLT_SPLIT_TRAIN, CLT_EDATA,
        "0 tokens|too few for a sequence of 4 tokens|model.context|one token more");
    clt_source *none = NULL;
    assert_int_equal(open_model("", "\"type\":\"tokens\",\"path\":\"%D\"", CLT_SPLIT_TRAIN, &none),
                     CLT_ECONFIG);
    expect_words("model.context|required");
}

TEST(test_bounds)
{
    uint16_t small[] = {1, 2, 3, 500, 5, 6, 7, 8, 9, 10};
    uint32_t wide[] = {1, 2, 3, 4, 5, 70000, 7, 0xffffffffu, 9, 10};
    int32_t x[4];
    put_u16("small.bin", small, 10, true);
    put_u32("wide.bin", wide, 10);
    clt_source *s =
        must_model(",\"context\":4", "\"type\":\"tokens\",\"path\":\"%D/small.bin\"", CLT_SPLIT_TRAIN);
    must_read(s, 0, 0, x);                                  /* no limit yet */
    assert_ok(clt_source_check_bound(s, 0, 400, true, -1)); /* the file is not read now ... */
    must_read(s, 4, 0, x);
    assert_int_equal(clt_source_read_field(s, 0, 0, x), CLT_EDATA); /* ... but before the window is used */
    expect_words("small.bin'|token 3 (byte 1030) is 500|0 to 399");
    assert_int_equal(clt_source_read_field(s, 1, 1, x), CLT_EDATA);
    assert_int_equal(clt_source_scan(s), CLT_EDATA);
    clt_str where = {0};
    s->type->locate(s, 2, 1, &where);
    assert_non_null(strstr(where.text, "small.bin', sequence 2 (from token 3, byte 1030"));
    clt_str_free(&where);
    clt_source_close(s);
    s = must_model(",\"context\":4", "\"type\":\"tokens\",\"path\":[\"%D/small.bin\",\"%D/wide.bin\"]",
                   CLT_SPLIT_TRAIN);
    assert_int_equal(s->fields[0].dtype, CLT_I32);
    must_read(s, 9, 0, x);
    assert_true(x[0] == 10 && x[1] == 1 && x[3] == 3);
    must_read(s, 13, 0, x);
    assert_int_equal(x[2], 70000);
    assert_int_equal(clt_source_read_field(s, 14, 0, x), CLT_EDATA); /* no i32 */
    expect_words("wide.bin'|token 7 (byte 1052) is 4294967295");
    clt_source_close(s);
    /* the vocabulary of a tokenizer beside the shards */
    CLT_SCOPED(clt_tokenizer) *t = small_tokenizer();
    assert_ok(clt_tokenizer_save(t, in_dir("tokenizer.json")));
    s = must_model(",\"context\":4", "\"type\":\"tokens\",\"path\":\"%D/small.bin\"", CLT_SPLIT_TRAIN);
    assert_int_equal(s->fields[0].max_value, clt_tokenizer_vocab(t) - 1);
    assert_int_equal(clt_source_scan(s), CLT_EDATA);
    expect_words("is 500|the tokenizer has ids 0 to 339");
    clt_source_close(s);
    assert_int_equal(unlink(in_dir("tokenizer.json")), 0);
}

static void bad_shard(const void *bytes, size_t size, const char *words)
{
    put_file("bad.bin", bytes, size);
    bad("\"type\":\"tokens\",\"path\":\"%D/bad.bin\"", CLT_SPLIT_TRAIN, CLT_EDATA, words);
}

TEST(test_bad_shards)
{
    uint8_t b[CLT_SHARD_HEADER + 40];
    memset(b, 0, sizeof b);
    clt_shard_write_header(b, 2, 20);
    bad_shard(b, 0, "bad.bin'|empty");
    bad_shard(b, 500, "cut off inside its header|500 of 1024");
    bad_shard(b, sizeof b - 1, "20 tokens|1064 bytes|has 1063|cut off");
    bad_shard(b, CLT_SHARD_HEADER, "has 1024|cut off");
    clt_shard_write_header(b, 2, 19);
    bad_shard(b, sizeof b, "1062 bytes|longer than its header");
    clt_shard_write_header(b, 4, 20);
    bad_shard(b, sizeof b, "20 tokens|1104 bytes");
    clt_shard_write_header(b, 2, 20);
    b[4] = 7;
    bad_shard(b, sizeof b, "version 7|version 1");
    clt_shard_write_header(b, 2, INT64_C(0x80000014));
    bad_shard(b, sizeof b, "2147483668 tokens|damaged");
    clt_shard_write_header(b, 2, 0x7fffffff);
    bad_shard(b, sizeof b, "2147483647 tokens|cut off");
    static const struct {
        uint32_t magic;
        const char *words;
    } others[] = {{20240522, "evaluation questions"},
                  {20240326, "llm.c model"},
                  {20240527, "llm.c state"},
                  {0x88d83401, "big-endian"}};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++)
            b[k] = (uint8_t)(others[i].magic >> (8 * k));
        bad_shard(b, sizeof b, others[i].words);
    }
    bad_shard("version https://git-lfs.github.com/spec/v1\noid", 46, "git-lfs");
    bad_shard("\x1f\x8b\x08\x00\x00\x00", 6, "gzip");
    bad_shard("abc", 3, "no header|odd");
    clt_source *s = NULL;
    assert_int_equal(open_model(",\"context\":4", "\"type\":\"tokens\",\"path\":\"%D\",\"targets\":\"x\"",
                                CLT_SPLIT_TRAIN, &s),
                     CLT_ECONFIG);
    expect_words("data.targets|only for data.type idx");
    assert_int_equal(
        open_model("", "\"type\":\"idx\",\"path\":\"x\",\"tokenizer\":\"y\"", CLT_SPLIT_TRAIN, &s),
        CLT_ECONFIG);
    expect_words("data.tokenizer|only for");
}

/* Random input of the right shapes, without any file. */
TEST(test_like)
{
    clt_config *config = NULL;
    clt_source *s = NULL;
    static const char text[] =
        "{\"model\":{\"type\":\"graph\",\"context\":6,\"layers\":[{\"op\":\"flatten\"}]},"
        "\"train\":{\"steps\":1},\"data\":{\"type\":\"%s\",\"path\":\"/none\"}}";
    static const char *const types[] = {"text", "tokens"};
    for (int i = 0; i < 2; i++) {
        char json[512];
        int32_t y[6];
        (void)snprintf(json, sizeof json, text, types[i]);
        assert_ok(clt_config_parse(json, "test", NULL, 0, &config));
        assert_ok(clt_source_open_like(config, &s));
        /* if the vocabulary's size is unknown, as for these tokens, ids may be wide */
        assert_int_equal(s->fields[0].dtype, i == 0 ? CLT_U8 : CLT_I32);
        assert_int_equal(s->fields[0].shape.dim[0], 6);
        must_read(s, 12345, 1, y);
        for (int k = 0; k < 6; k++)
            assert_true(y[k] >= 0 && y[k] < 256);
        clt_source_close(s);
        clt_config_destroy(config);
    }
}

/* --- preparing --- */

typedef struct watch {
    int calls, stop_at;
    uint64_t last;
} watch;

static clt_status on_progress(void *context, const clt_prepare_progress *p)
{
    watch *w = context;
    if (++w->calls == w->stop_at)
        CLT_FAIL(CLT_EINTERRUPTED, "stopped while %s", p->stage);
    w->last = p->done;
    return CLT_OK;
}

static int in_test_dir(const char *word)
{
    char command[256], count[16] = "";
    (void)snprintf(command, sizeof command, "ls %s | grep -c %s", test_folder(), word);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(count, sizeof count, pipe));
    (void)pclose(pipe);
    return atoi(count);
}

static void count_reports(void *context, const char *path, clt_status status, int64_t tokens)
{
    int *counts = context;
    (void)path;
    (void)tokens;
    counts[status == CLT_OK ? 0 : 1]++;
}

/* The training shards decode to the text, the end of text, and the text's beginning. */
static void expect_prepared_text(const char *out, const clt_prepare_result *r, const char *text, size_t size)
{
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(out);
    char members[512];
    (void)snprintf(members, sizeof members, "\"type\":\"tokens\",\"path\":\"%s\",\"shuffle\":false", out);
    clt_source *s = must_model(",\"context\":1", members, CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, r->train_tokens - 1);
    clt_str back = {0};
    for (int64_t i = 0; i < s->samples; i++) {
        int32_t token;
        if (i == 0) {
            uint16_t x;
            must_read(s, 0, 0, &x);
            uint32_t id = x;
            assert_ok(clt_tokenizer_decode(t, &id, 1, &back));
        }
        must_read(s, i, 1, &token);
        uint32_t id = (uint32_t)token;
        assert_ok(clt_tokenizer_decode(t, &id, 1, &back));
    }
    assert_memory_equal(back.text, text, size);
    assert_memory_equal(back.text + size, "<|endoftext|>", 13);
    assert_memory_equal(back.text + size + 13, text, back.length - size - 13);
    clt_str_free(&back);
    clt_source_close(s);
}

TEST(test_prepare)
{
    size_t size;
    CLT_FREED char *text = long_text(30, &size);
    watch w = {0};
    clt_prepare_result r;
    char out[256];
    const char *inputs[3] = {strdup(put_file("one.txt", text, size)),
                             strdup(put_gzip("two.gz", text, size / 2)),
                             strdup(put_file("empty.txt", "", 0))};
    (void)snprintf(out, sizeof out, "%s/new/prepared/", test_folder());
    clt_prepare_options o = {.inputs = inputs,
                             .n_inputs = 3,
                             .out = out,
                             .tokenizer = "",
                             .train_bpe = 320,
                             .split = 0.2,
                             .shard_tokens = 700,
                             .threads = 2,
                             .progress = on_progress,
                             .context = &w};
    if (clt_prepare(&o, &r) != CLT_OK)
        fail_msg("%s", clt_error_text());
    assert_int_equal(r.bytes, size + size / 2);
    assert_int_equal(w.last, r.bytes);
    assert_int_equal(r.vocab, 320);
    assert_int_equal(r.train_shards, (r.train_tokens + 699) / 700);
    assert_int_equal(r.val_shards, (r.val_tokens + 699) / 700);
    expect_prepared_text(out, &r, text, size);
    int counts[2] = {0};
    assert_ok(clt_prepare_check(out, count_reports, counts));
    assert_true(counts[0] == 1 + r.train_shards + r.val_shards && counts[1] == 0);
    /* a second run into the same folder is refused; a run that is stopped leaves nothing */
    assert_int_equal(clt_prepare(&o, &r), CLT_EUSAGE);
    expect_words("there already|--out");
    (void)snprintf(out, sizeof out, "%s/stopped", test_folder());
    for (int stop = 1; stop <= w.calls; stop++) {
        watch again = {.stop_at = stop};
        o.context = &again;
        clt_status status = clt_prepare(&o, &r);
        assert_int_equal(status, CLT_EINTERRUPTED);
        assert_int_equal(in_test_dir("stopped"), 0);
        if (w.calls > 20 && stop > 5)
            stop += 3;
    }
    o.progress = NULL;
    o.tokenizer = "bytes";
    assert_int_equal(clt_prepare(&o, &r), CLT_EUSAGE);
    expect_words("not both");
    o.train_bpe = 0;
    o.split = 0;
    o.n_inputs = 1;
    assert_ok(clt_prepare(&o, &r));
    assert_true(r.train_tokens == size && r.val_tokens == 0 && r.val_shards == 0 && r.vocab == 256);
    for (int i = 0; i < 3; i++)
        free((char *)(uintptr_t)inputs[i]);
}

TEST(test_prepare_check)
{
    char path[256];
    int counts[2] = {0};
    (void)snprintf(path, sizeof path, "%s/stopped", test_folder()); /* bytes, from the test before */
    assert_ok(clt_prepare_check(path, count_reports, counts));
    assert_true(counts[0] > 2 && counts[1] == 0);
    FILE *file = fopen(in_dir("stopped/train_001.bin"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 1100, SEEK_SET), 0);
    assert_int_equal(fputc('~', file), '~');
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(in_dir("stopped/train_002.bin"), 1030), 0);
    assert_ok(clt_prepare_check(path, count_reports, counts));
    assert_int_equal(counts[1], 2);
    put_file("stopped/manifest.json",
             "{\"format\":\"cltrain-tokens-1\",\"train\":{\"files\":[{\"name\":\"../x\"}]}}", 66);
    assert_int_equal(clt_prepare_check(path, count_reports, counts), CLT_EDATA);
    put_file("stopped/manifest.json", "{}", 2);
    assert_int_equal(clt_prepare_check(path, count_reports, counts), CLT_EDATA);
    expect_words("manifest.json|format");
    put_file("stopped/manifest.json", "[]", 2);
    assert_int_equal(clt_prepare_check(path, count_reports, counts), CLT_EDATA);
    put_file("stopped/manifest.json", "{", 1);
    assert_int_equal(clt_prepare_check(path, count_reports, counts), CLT_EDATA);
}
