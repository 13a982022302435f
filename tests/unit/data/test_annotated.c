/* SPDX-License-Identifier: Apache-2.0
 *
 * Annotated texts: rows of classes, of words and of windows over a context as transformers' fast tokenizer
 * of BERT makes them (version 5, truncation longest_first and only_second), ranges of tokens in a text,
 * records that are refused with their reasons, rows of tables, and classes that are learned once. Needs no
 * device.
 * ctest-labels: quick */
#include "tests/unit/data/data_test.h"

#include "engine/base/log.h"

#include "engine/data/annotated/source_annotated.h"

#define TOKENIZER CLT_TEST_SOURCE_DIR "/tests/golden/tokenizers/bert"
#define KEYS "\"type\":\"annotated\",\"split\":0,\"path\":\"RECORDS\",\"tokenizer\":\"" TOKENIZER "\","

static clt_status open_named(const char *name, const char *records, int context, const char *keys,
                             clt_source **out)
{
    char text[2048];
    CLT_SCOPED(clt_config) *config = NULL;
    const char *path = put_file(name, records, strlen(records)), *rest = strstr(keys, "RECORDS");
    *out = NULL;
    (void)snprintf(text, sizeof text,
                   "{\"model\":{\"type\":\"bert\",\"layers\":1,\"heads\":1,\"channels\":2,\"context\":%d},"
                   "\"data\":{%.*s%s%s}}",
                   context, (int)(rest - keys), keys, path, rest + strlen("RECORDS"));
    CLT_TRY(clt_config_parse(text, "annotated.json", NULL, 0, &config));
    return clt_source_open(config, CLT_SPLIT_TRAIN, out);
}

static clt_status open_records(const char *records, int context, const char *keys, clt_source **out)
{
    return open_named("records.jsonl", records, context, keys, out);
}

static clt_source *must_open_named(const char *name, const char *records, int context, const char *keys)
{
    clt_source *source;
    if (open_named(name, records, context, keys, &source) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return source;
}

static clt_source *must_open_records(const char *records, int context, const char *keys)
{
    clt_source *source;
    if (open_records(records, context, keys, &source) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return source;
}

/* Compares a row: its tokens, where the second text begins, and where padding begins. */
static void expect_row(const clt_source *source, int64_t index, const int32_t *ids, int64_t n, int second,
                       int length)
{
    int32_t x[64], document[64];
    uint8_t segments[64];
    must_read(source, index, 0, x);
    must_read(source, index, 1, segments);
    must_read(source, index, 2, document);
    for (int i = 0; i < n; i++) {
        if (x[i] != ids[i])
            fail_msg("sample %d: token %d is %d and not %d", (int)index, i, x[i], ids[i]);
        assert_int_equal(segments[i], i >= second && i < length);
        assert_int_equal(document[i], i < length ? 0 : i);
    }
}

TEST(classes_of_texts)
{
    static const int32_t cut[] = {3, 3693, 3696, 3695, 4, 3697, 3692, 3689, 4};
    static const int32_t pair[] = {3, 3693, 3696, 4, 3697, 4, 0, 0, 0};
    static const int32_t single[] = {3, 3693, 3696, 3695, 3692, 4};
    int32_t y;
    CLT_SCOPED(clt_source) *two = must_open_records(
        "{\"sentence1\":\"hello there theory\",\"sentence2\":\"well hell 12345 .\",\"label\":\"no\"}\n"
        "{\"sentence1\":\"hello there\",\"sentence2\":\"well\",\"label\":\"maybe\",\"idx\":7}\n",
        9, KEYS "\"truncate\":true");
    assert_int_equal(two->samples, 2);
    assert_int_equal(two->n_class_names, 2);
    assert_string_equal(two->class_names[0], "maybe");
    expect_row(two, 0, cut, 9, 5, 9);
    expect_row(two, 1, pair, 9, 4, 6);
    must_read(two, 0, 3, &y);
    assert_int_equal(y, 1);
    assert_int_equal(clt_annotated_of(two)->cut, 1);
    CLT_SCOPED(clt_source) *one = must_open_records(
        "{\"text\":\"hello there theory hell well\",\"label\":3}\n", 6, KEYS "\"truncate\":true");
    expect_row(one, 0, single, 6, 6, 6);
    assert_int_equal(one->fields[3].max_value, 3);
    assert_int_equal(one->n_class_names, 0);
    CLT_SCOPED(clt_source) *named = must_open_records(
        "{\"body\":\"hello\",\"stars\":\"b\"}\n", 6,
        KEYS "\"text_member\":\"body\",\"label_member\":\"stars\",\"class_names\":[\"z\",\"b\",\"a\"]");
    must_read(named, 0, 3, &y);
    assert_int_equal(y, 1);
}

TEST(longer_texts_are_cut_first)
{
    /* as truncate_encodings of the tokenizers library (longest_first) */
    static const int64_t cases[][5] = {{5, 5, 7, 3, 4}, {6, 5, 7, 4, 3}, {9, 2, 7, 5, 2}, {2, 9, 7, 2, 5},
                                       {3, 3, 7, 3, 3}, {9, 0, 4, 4, 0}, {8, 8, 1, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t n1 = cases[i][0], n2 = cases[i][1];
        clt_annotated_cut(&n1, &n2, cases[i][2]);
        assert_int_equal(n1, cases[i][3]);
        assert_int_equal(n2, cases[i][4]);
    }
}

TEST(labels_of_words)
{
    static const int32_t ids[] = {3, 74, 1918, 1915, 3705, 1925, 3698, 3696, 2, 2, 4, 0, 0, 0, 0, 0};
    static const int32_t want[] = {-1, 2, -1, -1, -1, -1, 0, -1, 1, -1, -1, -1, -1, -1, -1, -1};
    int32_t y[16];
    CLT_SCOPED(clt_source) *source = must_open_records(
        "{\"tokens\":[\"\xc3\x89hello\",\"wellness\",\"there\",\"\xe4\xb8\xad\xe6\x96\x87\"],"
        "\"ner_tags\":[2,0,-100,1]}\n",
        16, KEYS "\"task\":\"tokens\"");
    expect_row(source, 0, ids, 16, 16, 11);
    must_read(source, 0, 3, y);
    assert_memory_equal(y, want, sizeof want);
    assert_int_equal(source->fields[3].max_value, 2);
    bool done;
    assert_ok(source->type->check_bound(source, 3, 3, true, -1, &done));
    assert_int_equal(source->type->check_bound(source, 3, 3, false, 0, &done), CLT_ECONFIG);
}

#define CONTEXT                                                                                              \
    "Na\xc3\xafve caf\xc3\xa9: the theory of T\xc5\x8dky\xc5\x8d (1999), hello wellness. "                   \
    "\xe6\x9d\xb1\xe4\xba\xac there 12345 unsolvable\xc2\xa0hell"
#define QUESTION 3, 92, 1918, 1915, 1928, 1915, 3693, 36, 4

TEST(windows_of_spans)
{
    static const int32_t ids[5][24] = {
        {QUESTION, 83, 1911, 1919, 1932, 1915, 3706, 1915, 31, 3694, 3695, 84, 1916, 89, 1925, 4},
        {QUESTION, 3695, 84, 1916, 89, 1925, 1921, 1935, 1925, 13, 22, 1871, 1871, 1871, 14, 4},
        {QUESTION, 22, 1871, 1871, 1871, 14, 17, 3693, 3698, 19, 2, 2, 3696, 3689, 90, 4},
        {QUESTION, 2, 2, 3696, 3689, 90, 1924, 1929, 1925, 1922, 1932, 1911, 1912, 1922, 1915, 4},
        {QUESTION, 1932, 1911, 1912, 1922, 1915, 3692, 4}};
    static const int32_t want[5][2] = {{0, 0}, {18, 21}, {9, 12}, {0, 0}, {0, 0}};
    CLT_SCOPED(clt_source) *source = must_open_records(
        "{\"id\":\"a\",\"question\":\"where hello?\",\"context\":\"" CONTEXT
        "\",\"answers\":{\"text\":[\"1999\"],\"answer_start\":[33]}}\n"
        "{\"question\":\"where "
        "hello?\",\"context\":\"hello\",\"answers\":[{\"text\":\"hello\",\"answer_start\":0}]}\n",
        24, KEYS "\"task\":\"span\",\"stride\":5");
    assert_int_equal(source->samples, 6);
    for (int w = 0; w < 5; w++) {
        int32_t y[2];
        float outside[48];
        int length = w < 4 ? 24 : 16;
        expect_row(source, w, ids[w], 24, 9, length);
        must_read(source, w, 3, outside);
        for (int i = 0; i < 48; i++)
            assert_true(i % 24 < length ? outside[i] == 0 : outside[i] < -9999);
        must_read(source, w, 4, y);
        assert_memory_equal(y, want[w], sizeof y);
    }
    const clt_annotated *a = &clt_annotated_of(source)->record[0];
    static const char *const texts[] = {"N", "a", "\xc3\xaf", "v", "e", "caf", "\xc3\xa9", ":", "the"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const clt_text_range *r = &a->ranges.range[a->first + (int64_t)i];
        if (r->end - r->begin != strlen(texts[i]) ||
            strncmp(a->text.text + r->begin, texts[i], strlen(texts[i])) != 0)
            fail_msg("token %zu is '%.*s'", i, (int)(r->end - r->begin), a->text.text + r->begin);
    }
}

/* Encoding with ranges gives the same tokens as without, and ranges move forward inside the text. */
TEST(ranges_of_many_texts)
{
    static const char *const folders[] = {"bert", "bert_cased"};
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    int64_t tokens = 0;
    assert_ok(
        clt_json_parse_file(CLT_TEST_SOURCE_DIR "/tests/golden/tokenizers/strings.json", CLT_EDATA, &doc));
    for (int f = 0; f < 2; f++) {
        CLT_SCOPED(clt_tokenizer) *t = NULL;
        char path[512];
        (void)snprintf(path, sizeof path, CLT_TEST_SOURCE_DIR "/tests/golden/tokenizers/%s", folders[f]);
        assert_ok(clt_tokenizer_open(path, &t));
        for (const clt_json *one = clt_json_first(clt_json_root(doc)); one; one = clt_json_next(one)) {
            const char *text = clt_json_string(one);
            size_t size = strlen(text), at = 0;
            clt_ids plain = {0}, ids = {0};
            CLT_SCOPED(clt_token_ranges) ranges = {0};
            assert_ok(clt_tokenizer_encode(t, text, size, &plain));
            assert_ok(clt_encode_ranges(t, text, size, &ids, &ranges));
            assert_int_equal(ids.count, plain.count);
            if (ids.count)
                assert_memory_equal(ids.id, plain.id, ids.count * sizeof *ids.id);
            for (size_t i = 0; i < ids.count; i++) {
                const clt_text_range *r = &ranges.range[i];
                if (r->begin < at || r->end <= r->begin || r->end > size)
                    fail_msg("'%s': token %zu is at %zu to %zu", text, i, r->begin, r->end);
                at = r->begin;
            }
            tokens += (int64_t)ids.count;
            free(plain.id);
            free(ids.id);
        }
    }
    assert_true(tokens > 10000);
}

TEST(records_that_are_refused)
{
#define SPAN "\"task\":\"span\""
#define WORDS "\"task\":\"tokens\""
    static const char *const cases[][3] = {
        {"[1]\n", "", "it is an array, and a record is an object"},
        {"{\"text\":\n", "", "record:1:"},
        {"\n{\"text\":\n[1]\n", "", "records.jsonl', line 2: record:1:"},
        {"{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"a\",\"label\":\"\"}\n", "",
         "', line 2: \"label\": a label is an empty text"},
        {"{\"body\":\"a\",\"label\":1}\n", "", "data.text_member"},
        {"{\"text\":\"a\",\"class\":1}\n", "", "data.label_member"},
        {"{\"text\":7,\"label\":1}\n", "", "its \"text\" is a number, and must be a string"},
        {"{\"text\":\" \",\"label\":1}\n", "", "its \"text\" has no token"},
        {"{\"text\":\"a\",\"label\":-1}\n", "", "is -1, and classes count from 0"},
        {"{\"text\":\"a\",\"label\":1.5}\n", "", "the label 1.5 is not a whole number, or is too large"},
        {"{\"text\":\"a\",\"label\":null}\n", "", "a label is null"},
        {"{\"text\":\"a\",\"label\":2000000}\n", "", "the largest label is 2000000"},
        {"{\"text\":\"a\",\"label\":1}\n{\"text\":\"a\",\"label\":\"x\"}\n", "",
         "', line 2: its labels are names"},
        {"{\"text\":\"a\",\"label\":\"x\"}\n", "\"class_names\":[\"y\"]", "the label 'x' is not one of"},
        {"{\"text\":\"a\",\"label\":1}\n", "\"class_names\":[\"y\"]",
         "the label 1 is not one of the 1 class"},
        {"{\"text\":\"hello hello hello hello hello hello hello hello\",\"label\":1}\n", "",
         "it has 10 tokens, [CLS] and [SEP] among them, and model.context is 8"},
        {"{\"tokens\":[\"a\"],\"tags\":[1,2]}\n", WORDS, "a list with one label for each of its 1 words"},
        {"{\"tokens\":[\"a\",2],\"tags\":[1,2]}\n", WORDS,
         "an entry of its \"tokens\" is a number, and must be a word as a string"},
        {"{\"tokens\":[\"a\",\"b\"],\"tags\":[1,\"O\"]}\n", WORDS, "names and numbers"},
        {"{\"tokens\":[],\"tags\":[]}\n", WORDS, "have no token"},
        {"{\"tokens\":[\"a\"],\"tags\":[-100]}\n", WORDS, "no word has a label, a number from 0 on"},
        {"{\"question\":\"a\",\"context\":\"b\",\"answers\":[7]}\n", SPAN,
         "an entry of its \"answers\" is a number, and must be an object"},
        {"{\"question\":\"a\",\"context\":\"b  c\",\"answers\":[{\"text\":\" \",\"answer_start\":1}]}\n",
         SPAN, "its answer holds no token"},
        {"{\"question\":\"a\",\"answers\":[]}\n", SPAN, "it has no \"context\""},
        {"{\"question\":\"a\",\"context\":\"b\"}\n", SPAN, "it has no \"answers\""},
        {"{\"question\":\"a\",\"context\":\"b\",\"answers\":{\"text\":[],\"answer_start\":[]}}\n", SPAN,
         "data.unanswerable=true"},
        {"{\"question\":\"a\",\"context\":\"b\",\"answers\":{\"text\":[\"b\"],\"answer_start\":[]}}\n", SPAN,
         "lists \"text\" and \"answer_start\" of equal length"},
        {"{\"question\":\"a\",\"context\":\"b c\",\"answers\":{\"text\":[\"c\"],\"answer_start\":[1]}}\n",
         SPAN, "the answer 'c' is not in the context at character 1"},
        {"{\"question\":\"a\",\"context\":\"b c\",\"answers\":{\"text\":[\"c\"],\"answer_start\":[99]}}\n",
         SPAN, "at character 99"},
        {"{\"question\":\"a a a a a a\",\"context\":\"b "
         "c\",\"answers\":{\"text\":[\"c\"],\"answer_start\":[2]}}\n",
         SPAN, "its question has 6 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char keys[600];
        clt_source *source;
        (void)snprintf(keys, sizeof keys, KEYS "%s%s\"on_bad_sample\":\"stop\"", cases[i][1],
                       cases[i][1][0] ? "," : "");
        clt_status status = open_records(cases[i][0], 8, keys, &source);
        if (status != CLT_EDATA || !strstr(clt_error_text(), cases[i][2]))
            fail_msg("%s: %s", cases[i][0], status == CLT_OK ? "is accepted" : clt_error_text());
    }
    /* skipped, and counted */
    CLT_SCOPED(clt_source) *source =
        must_open_records("{\"text\":\"hello\",\"label\":1}\nnothing\n{\"text\":\"there\",\"label\":0}\n", 8,
                          KEYS "\"on_bad_sample\":\"skip\"");
    int32_t y;
    assert_int_equal(source->samples, 2);
    must_read(source, 1, 3, &y);
    assert_int_equal(y, 0);
}

static char told[400];
static void keep_line(void *context, clt_log_level level, const char *line)
{
    (void)context;
    if (level == CLT_LOG_WARN)
        (void)snprintf(told, sizeof told, "%s", line);
}

TEST(numbers_without_classes_are_told)
{
    static const char records[] = "{\"text\":\"a\",\"label\":7}\n{\"text\":\"a\",\"label\":3}\n"
                                  "{\"text\":\"a\",\"label\":3}\n";
    clt_log_set_copy(keep_line, NULL, CLT_LOG_WARN);
    CLT_SCOPED(clt_source) *source = must_open_records(records, 8, KEYS "\"on_bad_sample\":\"stop\"");
    clt_log_set_copy(NULL, NULL, CLT_LOG_WARN);
    assert_non_null(strstr(told, "numbers up to 7, but only 2 of these occur"));
}

/* An answer consists of the tokens that it touches: not the token before its spaces, and the whole of a token
 * that it covers in part. */
TEST(answers_touch_tokens)
{
    static const int32_t want[3][2] = {{4, 4}, {4, 4}, {3, 3}};
    CLT_SCOPED(clt_source) *source = must_open_records(
        "{\"id\":7,\"question\":\"a\",\"context\":\"b hello\",\"answers\":[{\"text\":\" "
        "hello\",\"answer_start\":1}]}\n"
        "{\"question\":\"a\",\"context\":\"b hello\",\"answers\":[{\"text\":\"ell\",\"answer_start\":3}]}\n"
        "{\"question\":\"a\",\"context\":\"b hello\",\"answers\":[{\"text\":\"b \",\"answer_start\":0},"
        "{\"text\":\"b hello\",\"answer_start\":0}]}\n",
        8, KEYS SPAN);
    for (int i = 0; i < 3; i++) {
        int32_t y[2];
        must_read(source, i, 4, y);
        assert_int_equal(y[0], want[i][0]);
        assert_int_equal(y[1], want[i][1]);
    }
    assert_string_equal(clt_annotated_of(source)->record[0].id.text, "7");
}

/* The training target of a question without an answer is the first token. */
TEST(records_without_an_answer)
{
    int32_t y[2] = {9, 9};
    CLT_SCOPED(clt_source) *source = must_open_records(
        "{\"question\":\"a\",\"context\":\"b\",\"answers\":{\"text\":[],\"answer_start\":[]}}\n", 8,
        KEYS SPAN ",\"unanswerable\":true");
    must_read(source, 0, 4, y);
    assert_int_equal(y[0], 0);
    assert_int_equal(y[1], 0);
}

#define PARAGRAPH                                                                                            \
    "{\"qas\":[{\"question\":\"a\",\"id\":\"q1\",\"answers\":[{\"text\":\"hello\",\"answer_start\":2},"      \
    "{\"text\":\"b hello\",\"answer_start\":0}],\"is_impossible\":false},{\"plausible_answers\":["           \
    "{\"text\":\"b\",\"answer_start\":0}],\"question\":\"b\",\"id\":\"q2\",\"answers\":[],\"is_"             \
    "impossible\":true}],"                                                                                   \
    "\"context\":\"b hello\"}"

/* Questions of SQuAD's JSON, as published, on one line or on many. */
TEST(squad_as_published)
{
    static const char *const files[] = {
        "{\"version\": \"v2.0\", \"data\": [{\"title\": \"a ] \\\" }\", \"paragraphs\": [" PARAGRAPH
        "]},{\"paragraphs\":[]}]}",
        "\xef\xbb\xbf{\n \"data\" : [ {\"paragraphs\" : [\n" PARAGRAPH
        "\n] , \"title\":[{\"n\":[1,-2e5,null]}] } ] "
        ", \"version\": 1.1 }\n"};
    static const int32_t want[2][2] = {{4, 4}, {0, 0}};
    for (int f = 0; f < 2; f++) {
        CLT_SCOPED(clt_source) *source = must_open_records(files[f], 8, KEYS SPAN ",\"unanswerable\":true");
        const clt_annotated *a = clt_annotated_of(source)->record;
        assert_int_equal(source->samples, 2);
        for (int i = 0; i < 2; i++) {
            int32_t y[2];
            must_read(source, i, 4, y);
            assert_memory_equal(y, want[i], sizeof y);
            assert_string_equal(a[i].id.text, i ? "q2" : "q1");
            assert_string_equal(a[i].text.text, "b hello");
        }
        assert_int_equal(a[0].answers.length, sizeof "hello" + sizeof "b hello");
        assert_int_equal(a[1].answers.length, 0);
    }
}

TEST(squad_that_is_refused)
{
#define DATA(rest) "{\"data\":[{\"paragraphs\":[" rest
    static const char *const cases[][2] = {
        {DATA(PARAGRAPH "]}]}"), "', byte 25, question 2: it has no answer; data.unanswerable=true"},
        {DATA(PARAGRAPH), "byte 298: expected a comma or the end of a list or object"},
        {DATA(PARAGRAPH "]}]} x"), "expected the end of the file"},
        {DATA("[1]]}]}"), "the paragraph at byte 25: a paragraph is an array, and must be an object"},
        {DATA("{\"context\":\"b\"}]}]}"), "the paragraph at byte 25: a paragraph has no list of questions"},
        {DATA("{\"qas\":[]}]}]}"), "it has no \"context\""},
        {DATA("{\"context\":\"b\",\"qas\":[7]}]}]}"),
         "question 1: it is a number, and a question is an object"},
        {DATA("{\"context\":\"b\",\"qas\":[{\"is_impossible\":1}]}]}]}"), "\"is_impossible\""},
        {DATA("{\"context\":\"b\",\"qas\":[}]}]}]}"), "paragraph:1:23: expected a value"},
        {DATA("{\"context\":\"b\\"), "the end of a string"},
        {"{\"data\":[],\"data\":[]}", "this member appears twice"},
        {"{\"data\":[7]}", "byte 10: expected an object"},
        {"{\"data\":[{\"title\":\"b\"}]}", "an article with a list \"paragraphs\""},
        {"{\"data\":[{\"paragraphs\":7}]}", "byte 24: expected a list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clt_source *source;
        clt_status status = open_records(cases[i][0], 8, KEYS SPAN, &source);
        if (status != CLT_EDATA || !strstr(clt_error_text(), cases[i][1]))
            fail_msg("%s: %s", cases[i][0], status == CLT_OK ? "is accepted" : clt_error_text());
    }
}

/* --- tables --- */

/* Quotes in GLUE's TSV are characters, in CSV they may hold line breaks; columns have names, in the file
 * or in the config, and the usual ones are found. */
TEST(rows_of_tables)
{
    static const struct {
        const char *file, *text, *keys;
        int32_t ids[6];
        int second, length;
        int32_t y;
    } cases[] = {
        {"a.tsv", "sentence\tlabel\n\"hello there \t1\n\"\t0\n", "", {3, 7, 3693, 3696, 4, 0}, 6, 5, 1},
        {"a.tsv",
         "\xef\xbb\xbfQuality\t#1 ID\t#1 String\t#2 String\r\n0\t7\thello\tthere\r\n\r\n1\t8\twell\twell\r\n",
         "",
         {3, 3693, 4, 3696, 4, 0},
         3,
         5,
         0},
        {"a.tsv",
         "gj04\t1\t\thello there\ngj04\t0\t*\twell\n",
         "\"column_names\":[\"a\",\"label\",\"b\",\"sentence\"],",
         {3, 3693, 3696, 4, 0, 0},
         6,
         4,
         1},
        {"a.tsv",
         "label\tsentence\n1\thello there\n0\twell\n",
         "\"column_names\":[\"a\",\"label\",\"b\",\"sentence\"],",
         {3, 3693, 3696, 4, 0, 0},
         6,
         4,
         1},
        {"a.csv", ",text,label\n7,\"hello\nthere\",no\n8,well,yes\n", "", {3, 3693, 3696, 4, 0, 0}, 6, 4, 0},
        {"a.csv", "text;label\n\"hello;there\"; 2\nwell;0\n", "", {3, 3693, 32, 3696, 4, 0}, 6, 5, 2},
        {"a.csv", "text,label\n\"hello,1\nwell,0\n", "\"quotes\":\"no\",", {3, 7, 3693, 4, 0, 0}, 6, 4, 1},
        {"a.tsv",
         "text\tlabel\n\"hello\"\t1\nwell\t0\n",
         "\"quotes\":\"yes\",",
         {3, 3693, 4, 0, 0, 0},
         6,
         3,
         1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char keys[600];
        int32_t y;
        (void)snprintf(keys, sizeof keys, KEYS "%s\"on_bad_sample\":\"stop\"", cases[i].keys);
        CLT_SCOPED(clt_source) *source = must_open_named(cases[i].file, cases[i].text, 6, keys);
        assert_int_equal(source->samples, 2);
        expect_row(source, 0, cases[i].ids, 6, cases[i].second, cases[i].length);
        must_read(source, 0, 3, &y);
        if (y != cases[i].y)
            fail_msg("%s: the class is %d and not %d", cases[i].text, y, cases[i].y);
    }
}

/* Numbers as targets of texts, from JSON Lines and from cells. */
TEST(numbers_of_texts)
{
    static const char *const files[][2] = {
        {"a.jsonl", "{\"sentence1\":\"hello\",\"sentence2\":\"well\",\"label\":3.8}\n"
                    "{\"sentence1\":\"hello\",\"sentence2\":\"well\",\"label\":-2}\n"},
        {"a.tsv", "index\tsentence1\tsentence2\tscore\n0\thello\twell\t3.800\n1\thello\twell\t-2\n"}};
    for (int i = 0; i < 2; i++) {
        float y[2];
        CLT_SCOPED(clt_source) *source =
            must_open_named(files[i][0], files[i][1], 8, KEYS "\"task\":\"number\"");
        assert_int_equal(source->fields[3].dtype, CLT_F32);
        assert_int_equal(source->fields[3].shape.ndim, 0);
        assert_int_equal(source->n_class_names, 0);
        must_read(source, 0, 3, &y[0]);
        must_read(source, 1, 3, &y[1]);
        assert_true(y[0] == 3.8f && y[1] == -2.0f);
    }
}

TEST(tables_that_are_refused)
{
#define NUMBER "\"task\":\"number\","
    static const char *const cases[][4] = {
        {"a.tsv", "text\tlabel\nhello\t1\nwell\n", "",
         "a.tsv', line 3: it has 1 cell, and the first line has 2"},
        {"a.tsv", "hello\t1\nwell\n", "\"column_names\":[\"text\",\"label\"],",
         "line 2: it has 1 cell, and data.column_names has 2"},
        {"a.tsv", "gj04\t1\t\thello\ngj04\t0\t*\twell\n", "",
         "a table with the columns 'gj04', '1', '', 'hello'; data.column_names"},
        {"a.tsv", "text\ttext\nhello\t1\n", "", "two columns have the name 'text'; if the first line"},
        {"a.tsv", "a\tb\n", "\"column_names\":[\"x\",\"x\"],",
         "two columns have the name 'x' (data.column_names)"},
        {"a.csv", "text,label\nhello,1\n\"well,0\nthere,1\n", "",
         "a.csv', line 3: a cell begins with a quote and spans several lines (data.quotes=no"},
        {"a.csv", "text,label\nhello,1\n\"well\" x,0\n", "",
         "line 3: the quotes of a cell end before the cell does"},
        {"a.csv", "text,label\nhello,1\n\"there\n\",1\nwell,x\n", "", "line 5: its labels are names"},
        {"a.csv", "text,label\nhello,3.8\n", "", "the label 3.8 is not a whole number"},
        {"a.csv", "text,label\nhello,3.8\n", "", "data.task number learns other numbers"},
        {"a.csv", "text,label\nhello,\n", "", "a label is an empty text"},
        {"a.csv", "text,label\nhe\xffllo,1\n", "", "line 2: its byte 3 is not UTF-8"},
        {"a.csv", "text,label\nhello,good\n", NUMBER,
         "\"label\": the label 'good' is not a number that f32 holds; data.task"},
        {"a.csv", "text,label\nhello,1e39\n", NUMBER, "the label '1e39' is not a number that f32 holds"},
        {"a.csv", "text,label\nhello,nan\n", NUMBER, "the label 'nan' is not a number"},
        {"a.jsonl", "{\"text\":\"hello\",\"label\":\"good\"}\n", NUMBER,
         "the label is a string, and must be a number"},
        {"a.jsonl", "{\"text\":\"hello\",\"label\":1e39}\n", NUMBER, "is too large for f32"},
        {"a.jsonl", "{\"text\":\"hello\"}\n", NUMBER, "data.label_member"},
        {"a.csv", "text,label\n", "", "the training part has none; 0 records are there"},
        {"a.csv", "", "", "the training part has none"},
        {"a.txt", "text,label\nhello,1\n", "", "(records of JSON; a table is a file named .csv or .tsv)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char keys[600];
        clt_source *source;
        (void)snprintf(keys, sizeof keys, KEYS "%s\"on_bad_sample\":\"stop\"", cases[i][2]);
        clt_status status = open_named(cases[i][0], cases[i][1], 8, keys, &source);
        if (status != CLT_EDATA || !strstr(clt_error_text(), cases[i][3]))
            fail_msg("%s: %s", cases[i][1], status == CLT_OK ? "is accepted" : clt_error_text());
    }
    clt_source *source;
    assert_int_equal(
        open_named("a.csv", "text,label\nhello,1\n", 8, KEYS NUMBER "\"class_names\":[\"a\"]", &source),
        CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "data.task=number learns numbers"));
    /* skipped, and counted */
    CLT_SCOPED(clt_source) *rest = must_open_named("a.tsv", "text\tlabel\nhello\t1\nwell\nthere\t0\n", 8,
                                                   KEYS "\"on_bad_sample\":\"skip\"");
    assert_int_equal(rest->samples, 2);
}

TEST_PROGRAM();
