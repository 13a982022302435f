/* SPDX-License-Identifier: Apache-2.0
 * ctest-labels: quick
 *
 * Tables as training data: separators, quotes, headers, columns by name and number, the three kinds of
 * targets, the part kept for evaluation, what the training file decides for the evaluation file, and
 * everything that is refused. */
#include "tests/unit/data/data_test.h"

#include <math.h>

#include "engine/data/facts/data_facts.h"

static void put(const char *name, const char *text)
{
    (void)put_file(name, text, strlen(text));
}

#define CSV(more)                                                                                            \
    "\"type\":\"csv\",\"path\":\"%D/t.csv\",\"split\":0,\"standardize\":false,\"fill\":\"refuse\"" more

/* x of a sample, and its label or number. */
static void must_hold(const clt_source *s, int64_t index, const float *x, double y)
{
    float got[8], number;
    int32_t label;
    assert_ok(clt_source_read_field(s, index, 0, got));
    assert_memory_equal(got, x, clt_source_field_bytes(&s->fields[0]));
    void *to = s->fields[1].dtype == CLT_F32 ? (void *)&number : &label;
    assert_ok(clt_source_read_field(s, index, 1, to));
    assert_true((s->fields[1].dtype == CLT_F32 ? (double)number : label) == y);
}

TEST(test_classes)
{
    static const char *const texts[] = {
        "a,b,kind\n1,2,dog\n-3,4e1,cat\n.5,6,dog\n",
        "\xef\xbb\xbf\"a\",\"b\",\"kind\"\r\n\"1\", 2 ,dog\r\n\r\n-3,4e1,\"cat\"\r\n.5,6,dog",
        "a;b;kind\n1;2;dog\n-3;4e1;cat\n.5;6;dog\n",
        "a\tb\tkind\n1\t2\tdog\n-3\t4e1\tcat\n.5\t6\tdog\n",
        "1,2,dog\n-3,4e1,cat\n.5,6,dog\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put("t.csv", texts[i]);
        CLT_SCOPED(clt_source) *s = must_open(CSV(""), CLT_SPLIT_TRAIN);
        assert_int_equal(s->samples, 3);
        assert_int_equal(s->fields[1].max_value, 1);
        assert_int_equal(s->n_class_names, 2);
        assert_string_equal(s->class_names[0], "cat");
        assert_string_equal(s->class_names[1], "dog");
        must_hold(s, 0, (float[]){1, 2}, 1);
        must_hold(s, 1, (float[]){-3, 40}, 0);
        must_hold(s, 2, (float[]){.5f, 6}, 1);
        CLT_SCOPED(clt_data_facts) facts = {0};
        assert_ok(clt_data_facts_take(s, NULL, &facts));
        assert_int_equal(facts.classes, 2);
        assert_string_equal(clt_data_facts_class(&facts, 1), "dog");
        assert_null(clt_data_facts_class(&facts, 2));
    }
    put("t.csv", "x,y\n1,\"say \"\"a\"\", b;\"\n2,c\n");
    clt_source *s = must_open(CSV(""), CLT_SPLIT_TRAIN);
    assert_string_equal(s->class_names[1], "say \"a\", b;");
    clt_source_close(s);
}

TEST(test_numbers)
{
    put("t.csv", "1,10,3\n2,20,-4\n");
    clt_source *s = must_open(CSV(""), CLT_SPLIT_TRAIN);
    assert_int_equal(s->fields[1].dtype, CLT_I32); /* integers stay numbers and do not become classes */
    assert_int_equal(s->fields[1].max_value, 3);
    assert_int_equal(s->n_class_names, 0);
    must_hold(s, 1, (float[]){2, 20}, -4);
    clt_source_close(s);
    s = must_open(CSV(",\"target\":\"1\",\"columns\":[\"3\",\"2\"],\"scale\":2,\"mean\":1,\"std\":4"),
                  CLT_SPLIT_TRAIN);
    must_hold(s, 1, (float[]){-2.25f, 9.75f}, 2);
    assert_true(s->scale == 1.0f && s->mean == 0.0f && s->std == 1.0f);
    clt_source_close(s);
    put("t.csv", "in,out\n1,3.5\n2,-4\n");
    s = must_open(CSV(",\"target\":\"out\""), CLT_SPLIT_TRAIN);
    assert_int_equal(s->fields[1].dtype, CLT_F32);
    must_hold(s, 0, (float[]){1}, 3.5);
    clt_source_close(s);
    /* a quoted cell may hold line breaks, separators and quotes; lines are counted as they are in the file */
    put("t.csv", "\"in\nput\",b,out\n1,\"2\n\",3.5\n\n\"4\", 5 ,-4\n6,7 \"\",8\n");
    expect_refused(CSV(",\"target\":\"out\""), CLT_SPLIT_TRAIN, CLT_EDATA,
                   "line 3, column 'b': '2\n' is not a number");
    put("t.csv", "a,note,y\n1,\"x\n, \"\"y\"\"\r\nz\",2\n3,in 5\" steps,4\n5,\"\",q\n");
    expect_refused(CSV(",\"columns\":[\"a\"],\"class_names\":[\"2\",\"4\"]"), CLT_SPLIT_TRAIN, CLT_EDATA,
                   "line 6|'q'");
    s = must_open(CSV(",\"columns\":[\"a\"]"), CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, 3);
    must_hold(s, 1, (float[]){3}, 1);
    assert_non_null(strstr(s->words, "line 6, column 'y': 'q'")); /* the others are numbers */
    clt_source_close(s);
    put("t.csv", "in,out\n1,3.5\n2,-4\n");
    s = must_open(CSV(",\"target\":\"out\",\"class_names\":[\"-4\",\"3.5\"]"), CLT_SPLIT_TRAIN);
    must_hold(s, 0, (float[]){1}, 1);
    clt_source_close(s);
    put("t.csv", "1,a\n2,b\n"); /* a first line that could name columns but is a sample, and the reverse */
    s = must_open(CSV(",\"header\":\"yes\""), CLT_SPLIT_TRAIN);
    assert_int_equal(s->samples, 1);
    clt_source_close(s);
}

/* Each sample is in exactly one of the two parts, in the same one for every seed of the training. */
TEST(test_split)
{
    char text[4096] = "x,y\n";
    int seen[100] = {0};
    for (int i = 0; i < 100; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%s\n", i, i < 50 ? "low" : "top");
    put("t.csv", text);
#define DIVIDED "\"type\":\"csv\",\"path\":\"%D/t.csv\",\"split\":0.2,\"standardize\":false"
    clt_source *train = must_open(DIVIDED, CLT_SPLIT_TRAIN), *eval = must_open(DIVIDED, CLT_SPLIT_EVAL);
    assert_int_equal(train->samples, 80);
    assert_int_equal(eval->samples, 20);
    int top = 0;
    for (int64_t i = 0; i < 100; i++) {
        const clt_source *s = i < 80 ? train : eval;
        float x;
        int32_t y;
        assert_ok(clt_source_read_field(s, i % 80, 0, &x));
        assert_ok(clt_source_read_field(s, i % 80, 1, &y));
        assert_int_equal(y, x >= 50);
        seen[(int)x]++;
        top += i >= 80 && y;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    assert_true(top > 3 && top < 17); /* drawn at random, not taken from the end */
    char a[CLT_HASH64_TEXT], b[CLT_HASH64_TEXT];
    assert_string_equal(clt_source_fingerprint(train, a), clt_source_fingerprint(eval, b));
    clt_source_close(train);
    clt_source_close(eval);
    clt_config *config = data_config(DIVIDED);
    assert_true(clt_source_has_eval(config));
    clt_config_destroy(config);
    config = data_config(CSV(""));
    assert_false(clt_source_has_eval(config));
    clt_config_destroy(config);
    expect_refused("\"type\":\"csv\",\"path\":\"%D/t.csv\",\"split\":0.001", CLT_SPLIT_EVAL, CLT_EDATA,
                   "leaves none for evaluation");
}

/* Read alone, the evaluation file would number its classes in another way, and take whole numbers for
 * classes. */
TEST(test_eval_file)
{
#define BOTH CSV(",\"eval_path\":\"%D/e.csv\"")
    put("t.csv", "x,y\n1,a\n2,b\n3,c\n");
    put("e.csv", "x,y\n9,c\n8,b\n");
    clt_source *s = must_open(BOTH, CLT_SPLIT_EVAL);
    must_hold(s, 0, (float[]){9}, 2);
    must_hold(s, 1, (float[]){8}, 1);
    clt_source_close(s);
    put("e.csv", "x,y\n9,d\n");
    expect_refused(BOTH, CLT_SPLIT_EVAL, CLT_EDATA, "line 2|column 'y'|'d' is not one of the classes");
    put("e.csv", "x,z\n9,a\n");
    expect_refused(BOTH, CLT_SPLIT_EVAL, CLT_EDATA, "there is no column 'y', which the training table has");
    put("t.csv", "1,0.5\n2,1\n");
    put("e.csv", "1,2\n");
    s = must_open(BOTH, CLT_SPLIT_EVAL);
    assert_int_equal(s->fields[1].dtype, CLT_F32);
    clt_source_close(s);
    put("t.csv", "1,5\n2,1\n");
    put("e.csv", "1,2.5\n");
    expect_refused(BOTH, CLT_SPLIT_EVAL, CLT_EDATA,
                   "line 1|is not a whole number, but the other targets are");
    assert_int_equal(remove(in_dir("t.csv")), 0); /* a saved model is evaluated without it */
    put("e.csv", "x,y\n9,c\n8,b\n");
    s = must_open(CSV(",\"eval_path\":\"%D/e.csv\",\"class_names\":[\"c\",\"b\"]"), CLT_SPLIT_EVAL);
    must_hold(s, 0, (float[]){9}, 0);
    clt_source_close(s);
}

TEST(test_refused)
{
    static const struct {
        const char *text, *more, *words;
    } cases[] = {
        {"", "", "no line with a sample"},
        {"a,b\n", "", "no line with a sample"},
        {"1,2\n3\n", "", "line 2: it has 1 cell, and the first line has 2"},
        {"1,2\n3,4,5\n", "", "line 2: it has 3 cells"},
        {"1,2\n\n,4\n", "", "line 3|column 1|'' is blank"},
        {"a,b\n1,x\nred,y\n", "", "line 3|column 'a'|'red' is not a number|data.blank|data.drop_columns"},
        {"1,2\n0x10,3\n", "", "'0x10' is not a number"},
        {"1,2\nnan,3\n", "", "'nan' is not finite"},
        {"1,2\n1e39,3\n", "", "'1e39' is too large for f32"},
        {"1,2\n3,\n", "", "line 2, column 2: the target is missing"},
        {"1,2\n3,?\n", ",\"blank\":[\"?\"]", "line 2, column 2: the target is missing"},
        {"a,b\n1,2\nNA,4\n", "", "line 3, column 'a': 'NA' is not a number|list it in data.blank"},
        {"a,b\n1,2\n?,4\n", ",\"blank\":[\"NA\"]", "'?' is not a number|list it in data.blank"},
        {"a,b\n1,2\n?,4\n", ",\"blank\":[\"?\"]", "line 3, column 'a': '' is blank"},
        {"a,b\n1,2\nTrue,4\n", "", "'True' is not a number (write 1 for true and 0 for false"},
        {"1,\"2\n3,4\n", "", "line 1: the quotes of a cell do not end"},
        {"1,\"2\"3\n", "", "the quotes of a cell end before the cell"},
        {"1\n2\n", "", "nothing to learn from"},
        {"x,y\n1,f\xfcr\n2,a\n", "",
         "line 2, column 'y'|byte 0xfc at place 2 (byte 7 of the file)|not UTF-8"},
        {"x,y\n1,a\n2,b\x7f\n", "", "line 3|0x7f at place 2|control character"},
        {"x,y\n1,\"a\nb\"\n2,c\n", "", "line 2|0x0a|control character"},
        {"a;y\n1,5;1.5\n2,25;2.25\n", "",
         "line 2, column 'a': '1,5' is not a number (is that a decimal comma"},
        {"a,b\n\"1,234\",2\n", "", "'1,234' is not a number (does the comma separate thousands? remove it"},
        {"a,b\n\"-1,234,567\",2\n", "", "'-1,234,567' is not a number (do commas separate the thousands?"},
        {"a,b\n\"1,234.5\",2\n", "", "(do commas separate the thousands? remove them)"},
        {"a,b\n\"0,250\",2\n", "", "(is that a decimal comma? write a point)"},
        {"a;b\n1.234,5;2\n", "", "write a point, and leave out the points between thousands"},
        {"a,b,a\n1,2,3\n", ",\"target\":\"a\"", "data.target: columns 1 and 3 are both named 'a'"},
        {"a,b,a\n1,2,3\n", ",\"columns\":[\"b\",\"a\"]", "data.columns: columns 1 and 3"},
        {"first,second\n1,2\n", ",\"target\":\"secnd\"", "data.target|did you mean 'second'"},
        {"1,2\n", ",\"target\":\"3\"", "data.target|no column '3'|2 columns"},
        {"1,2\n", ",\"target\":\"0\"", "no column '0'"},
        {"a,b\n1,2\n", ",\"columns\":[\"c\"]", "data.columns: there is no column 'c'"},
        {"a,b\n1,2\n", ",\"columns\":[\"a\",\"b\"]", "data.columns: column 'b' is the target"},
        {"first,b\n1,2\n", ",\"drop_columns\":[\"frst\"]", "data.drop_columns|did you mean 'first'"},
        {"a,b\n1,2\n", ",\"drop_columns\":[\"b\"]", "data.drop_columns: column 'b' is the target"},
        {"a,b\n1,2\n", ",\"drop_columns\":[\"a\"]", "leaves no column but the target"},
        {"a,b\n1,2\n", ",\"columns\":[\"a\"],\"drop_columns\":[\"a\"]",
         "data.columns: column 'a' is named in data.drop_columns, too"},
        {"a,b\n1,2\n", ",\"words\":[\"b\"]", "data.words: column 'b' is the target"},
        {"a,c,b\n1,3,2\n", ",\"columns\":[\"a\"],\"words\":[\"c\"]",
         "data.words: column 'c' is not one of the inputs"},
        {"a,b\n1,cat\n", ",\"class_names\":[\"dog\"]", "'cat' is not one of the classes"},
        {"a,b\n1e38,2\n", ",\"scale\":1e10", "'1e38' is not finite with data.scale"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char members[512];
        put("t.csv", cases[i].text);
        (void)snprintf(members, sizeof members, "%s%s", CSV(""), cases[i].more);
        expect_refused(members, CLT_SPLIT_TRAIN, CLT_EDATA, cases[i].words);
    }
    char text[1024] = "x,y\n";
    for (int i = 0; i < 40; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), i % 2 ? "red,1\n" : "3,1\n");
    put("t.csv", text); /* of many bad rows the first one is named, in whatever order samples are drawn */
    expect_refused("\"type\":\"csv\",\"path\":\"%D/t.csv\",\"split\":0.2", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "line 3, column");
    expect_refused("\"type\":\"csv\",\"path\":\"%D/t.csv\",\"split\":0.2", CLT_SPLIT_EVAL, CLT_EDATA,
                   "line 3, column");
    (void)put_file("t.csv", "1,2\0\n", 5);
    expect_refused(CSV(""), CLT_SPLIT_TRAIN, CLT_EDATA, "byte 3 is zero");
    expect_refused("\"type\":\"csv\",\"path\":[\"a\",\"b\"]", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "one file in data.path");
    expect_refused("\"type\":\"csv\"", CLT_SPLIT_TRAIN, CLT_ECONFIG, "data.path: required");
    expect_refused("\"type\":\"npy\",\"path\":\"x\",\"target\":\"y\"", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "data.target: only for data.type csv");
    put("t.csv", "1,7\n2,3\n");
    clt_source *s = must_open(CSV(""), CLT_SPLIT_TRAIN);
    assert_int_equal(clt_source_check_bound(s, 1, 5, false, 0), CLT_EDATA);
    expect_words("sample 0 (line 1) is 7");
    clt_source_close(s);
    clt_str line = {0};
    assert_ok(clt_source_check_file(in_dir("t.csv"), "", &line));
    assert_string_equal(line.text, "2 lines of 2 cells");
    clt_str_free(&line);
}

static void must_be_near(const double *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        assert_true(fabs(got[i] - want[i]) <= 1e-6 * (1 + fabs(want[i])));
}

/* The facts learned from a table's training part, kept as JSON, are used for another table with other
 * columns. */
TEST(test_learned)
{
#define LEARNED "\"type\":\"csv\",\"path\":\"%D/t.csv\",\"target\":\"y\""
    put("t.csv", "a,kind,y\n1.5,red,110\n2.5,blue,90.5\n,red,120.25\n4,,131\n");
    clt_source *s = must_open(LEARNED ",\"split\":0", CLT_SPLIT_TRAIN);
    assert_int_equal(s->fields[0].shape.dim[0], 4);
    const double mean = 8.0 / 3, std = 1.0274023338281626; /* numpy.std of 1.5, 2.5, 4 */
    float x[4], y;
    assert_ok(clt_source_read_field(s, 0, 0, x));
    assert_true(fabs((double)x[0] - (1.5 - mean) / std) < 1e-6 && x[1] == 0 && x[2] == 0 && x[3] == 1);
    assert_ok(clt_source_read_field(s, 2, 0, x));
    assert_true(x[0] == 0); /* a blank cell is the mean */
    assert_ok(clt_source_read_field(s, 3, 0, x));
    assert_true(x[1] == 1 && x[2] == 0 && x[3] == 0);
    assert_ok(clt_source_read_field(s, 1, 1, &y));
    assert_true(y == 90.5f); /* not scaled until the model is known to be a regression */
    bool changed;
    assert_int_equal(s->type->regress(s, &changed), CLT_OK);
    assert_true(changed && s->table->target_scaled);
    assert_ok(clt_source_read_field(s, 1, 1, &y));
    assert_true(fabs(clt_table_number(s->table, (double)y) - 90.5) < 1e-5 && y < -1);
    assert_int_equal(s->type->regress(s, &changed), CLT_OK);
    assert_false(changed);

    clt_data_facts facts, again;
    clt_str text = {0};
    assert_ok(clt_data_facts_take(s, NULL, &facts));
    assert_ok(clt_data_facts_print(&facts, &text));
    assert_ok(clt_data_facts_parse(text.text, text.length, "data.json", &again));
    clt_source_close(s);
    assert_int_equal(again.table->elements, 4);
    assert_string_equal(again.table->columns[1].words[2], "red");
    double norm[8];
    clt_table_norm(again.table, norm, norm + 4);
    must_be_near(norm, (double[]){mean, 0, 0, 0, std, 1, 1, 1}, 8);

    put("t.csv", "kind,extra,a,y\nblue,7,3,1\ngreen,8,1700000001,2\n");
    clt_config *config = data_config(LEARNED ",\"split\":0");
    const clt_source_with with = {.table = again.table, .numbers = true};
    assert_ok(clt_source_open_with(config, CLT_SPLIT_TRAIN, &with, &s));
    double row[4];
    assert_int_equal(s->type->numbers(s, 0, row), CLT_OK);
    must_be_near(row, (double[]){3, 0, 1, 0}, 4);
    assert_int_equal(s->type->numbers(s, 1, row), CLT_OK);
    assert_true(row[0] == 1700000001.0 && row[1] + row[2] + row[3] == 0); /* f32 has no such number */
    clt_source_close(s);
    clt_config_destroy(config);
    clt_data_facts_free(&again);

    char *damaged = strstr(text.text, "\"red\""); /* words out of order, a width that differs from x's */
    memcpy(damaged, "\"RED\"", 5);
    assert_int_equal(clt_data_facts_parse(text.text, text.length, "data.json", &again), CLT_ECHECKPOINT);
    expect_words("\"table\"|order of words");
    clt_str_free(&text);
    facts.table->target_number = 9; /* there are three columns */
    assert_ok(clt_data_facts_print(&facts, &text));
    assert_int_equal(clt_data_facts_parse(text.text, text.length, "data.json", &again), CLT_ECHECKPOINT);
    expect_words("\"table\": number");
    clt_str_free(&text);
    facts.table->target_number = 3;
    facts.table->n_columns = 1;
    assert_ok(clt_data_facts_print(&facts, &text));
    assert_int_equal(clt_data_facts_parse(text.text, text.length, "data.json", &again), CLT_ECHECKPOINT);
    expect_words("as wide as the field x");
    clt_str_free(&text);
    clt_data_facts_free(&facts);

    put("t.csv", "a,a,y\n1,2,5\n3,4,6\n"); /* columns of the same name are found by their position */
    s = must_open(LEARNED ",\"split\":0,\"columns\":[\"2\"],\"standardize\":false", CLT_SPLIT_TRAIN);
    assert_ok(clt_source_read_field(s, 1, 0, x));
    assert_true(x[0] == 4 && !s->table->columns[0].name);
    clt_source_close(s);

    /* a constant column; large numbers; the evaluation part is standardised with the means of the training
     * part */
    put("t.csv", "a,b,y\n0.1,1700000001,1\n0.1,1700000002,2\n0.1,1700000003,3\n");
    s = must_open(LEARNED ",\"split\":0", CLT_SPLIT_TRAIN);
    assert_ok(clt_source_read_field(s, 2, 0, x));
    assert_true(x[0] == 0 && fabs((double)x[1] - 1.224744871391589) < 1e-6);
    clt_source_close(s);
    clt_source *part[2];
    for (int i = 0; i < 2; i++)
        part[i] = must_open(LEARNED ",\"split\":0.34", i ? CLT_SPLIT_EVAL : CLT_SPLIT_TRAIN);
    assert_int_equal(part[1]->samples, 1);
    assert_true(part[0]->table->columns[1].mean == part[1]->table->columns[1].mean);
    clt_source_close(part[0]);
    clt_source_close(part[1]);
}
