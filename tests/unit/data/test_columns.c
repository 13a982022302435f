/* SPDX-License-Identifier: Apache-2.0
 *
 * CoNLL's columns: sentences as records of JSON, however columns and lines are separated; what does not
 * count as a word; files of numbered words; faults with their lines; and which files are JSON Lines. Needs
 * no device.
 * ctest-labels: quick */
#include "tests/unit/data/data_test.h"

#include "engine/data/annotated/source_annotated.h"
#include "engine/data/records/record_forms.h"
#include "engine/data/records/text_records.h"

static void must_cut(const char *name, const char *text, clt_texts *texts)
{
    *texts = (clt_texts){.key = "data.path", .json_key = "", .lines = true, .cut = clt_columns_cut};
    if (clt_texts_add(texts, put_file(name, text, strlen(text))) != CLT_OK)
        fail_msg("%s: %s", text, clt_error_text());
}

static void expect_records(const char *name, const char *text, const char *const *want)
{
    CLT_SCOPED(clt_texts) texts = {0};
    CLT_SCOPED(clt_str) made = {0};
    size_t n = 0;
    must_cut(name, text, &texts);
    for (; want[n]; n++) {
        const char *json;
        size_t size;
        assert_true(n < texts.n_documents);
        if (clt_record_json(&texts, &texts.documents[n], &made, &json, &size) != CLT_OK)
            fail_msg("%s: %s", text, clt_error_text());
        if (size != strlen(want[n]) || memcmp(json, want[n], size) != 0)
            fail_msg("record %zu of %s is\n%.*s and not\n%s", n, text, (int)size, json, want[n]);
    }
    assert_int_equal(texts.n_documents, n);
}

#define THREE                                                                                                \
    "{\"tokens\":[\"EU\",\"#\"],\"tags\":[\"B-ORG\",\"O\"],\"1\":[\"EU\",\"#\"],\"2\":[\"NNP\",\"VBZ\"],"    \
    "\"3\":[\"B-ORG\",\"O\"]}"
#define TWO "{\"tokens\":[\"Peter\"],\"tags\":[\"I-PER\"],\"1\":[\"Peter\"],\"2\":[\"NN\"],\"3\":[\"I-PER\"]}"

TEST(sentences_of_columns)
{
    static const char *const want[] = {THREE, TWO, NULL};
    static const char *const same[] = {
        "-DOCSTART- -X- O\n\nEU NNP B-ORG\n# VBZ O\n\nPeter NN I-PER\n\n",
        "-DOCSTART- -X- -X- O O\n\nEU  NNP   B-ORG \n # VBZ \t O\n \t \n\n\n Peter NN I-PER",
        "\xef\xbb\xbf"
        "EU\tNNP\tB-ORG\r\n#\tVBZ\tO\r\n\r\nPeter\tNN\tI-PER\r\n-DOCSTART-\r\n",
        "EU NNP B-ORG\n# VBZ O\n-DOCSTART-\nPeter NN I-PER\n",
        "# sent_id = 1\n# a\tb c\nEU NNP B-ORG\n# VBZ O\n\n#\n# id 7\tx\nPeter NN I-PER\n",
        "\n# text = EU\nEU\tNNP\tB-ORG\t\n#\tVBZ\tO\n\n#x\nPeter \tNN\tI-PER",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        expect_records("a.conll", same[i], want);
}

TEST(words_alone_and_words_with_spaces)
{
    static const char *const words[] = {"{\"tokens\":[\"{\",\"\\\"\"],\"1\":[\"{\",\"\\\"\"]}", NULL};
    static const char *const spaces[] = {"{\"tokens\":[\"vor allem\",\"#tag\"],\"tags\":[\"O\",\"B-X\"],"
                                         "\"1\":[\"vor allem\",\"#tag\"],\"2\":[\"O\",\"B-X\"]}",
                                         NULL};
    static const char *const none[] = {NULL};
    expect_records("words.txt", "{\n\"\n", words);
    expect_records("a.tsv", "vor allem\tO\n#tag\tB-X\n", spaces);
    expect_records("a.txt", "-DOCSTART-\n\n# nothing\n\n", none);
}

/* CoNLL-U: the words are the second column, the labels the parts of speech; contractions and words that are
 * not written do not count. Other files with numbered words have their labels in the last column. */
TEST(numbered_words)
{
    static const char *const universal[] = {
        "{\"tokens\":[\"de\",\"le\"],\"tags\":[\"ADP\",\"DET\"],\"1\":[\"1\",\"2\"],\"2\":[\"de\",\"le\"],"
        "\"3\":[\"_\",\"_\"],\"4\":[\"ADP\",\"DET\"],\"5\":[\"_\",\"_\"],\"6\":[\"_\",\"_\"],"
        "\"7\":[\"_\",\"_\"],\"8\":[\"_\",\"_\"],\"9\":[\"_\",\"_\"],\"10\":[\"_\",\"N\"]}",
        "{\"tokens\":[\"Oui\"],\"tags\":[\"INTJ\"],\"1\":[\"1\"],\"2\":[\"Oui\"],\"3\":[\"_\"],"
        "\"4\":[\"INTJ\"],\"5\":[\"_\"],\"6\":[\"_\"],\"7\":[\"_\"],\"8\":[\"_\"],\"9\":[\"_\"],"
        "\"10\":[\"_\"]}",
        NULL};
    static const char *const german[] = {
        "{\"tokens\":[\"a\",\"b\"],\"tags\":[\"O\",\"B-X\"],\"1\":[\"1\",\"2\"],\"2\":[\"a\",\"b\"],"
        "\"3\":[\"O\",\"B-X\"]}",
        NULL};
    static const char *const words[] = {
        "{\"tokens\":[\"1\",\"2\"],\"tags\":[\"O\",\"O\"],\"1\":[\"1\",\"2\"],\"2\":[\"O\",\"O\"]}",
        "{\"tokens\":[\"10\",\"2\"],\"tags\":[\"O\",\"O\"],\"1\":[\"10\",\"2\"],\"2\":[\"O\",\"O\"]}", NULL};
    expect_records("a.conllu",
                   "# text = du\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\t_\tADP\t_\t_\t_\t_\t_\t_\n"
                   "2\tle\t_\tDET\t_\t_\t_\t_\t_\tN\n2.1\tx\t_\tX\t_\t_\t_\t_\t_\t_\n\n"
                   "1\tOui\t_\tINTJ\t_\t_\t_\t_\t_\t_\n",
                   universal);
    expect_records("a.tsv", "#\tn.de\n1\ta\tO\n2\tb\tB-X\n", german);
    expect_records("a.txt", "1 O\n2 O\n\n10 O\n2 O\n", words);
}

/* Opens a file of columns as data. */
static clt_status open_columns(const char *name, const char *text, const char *keys, clt_source **out)
{
    char config_text[2048];
    CLT_SCOPED(clt_config) *config = NULL;
    const char *path = put_file(name, text, strlen(text));
    *out = NULL;
    (void)snprintf(config_text, sizeof config_text,
                   "{\"model\":{\"type\":\"bert\",\"layers\":1,\"heads\":1,\"channels\":2,\"context\":8},"
                   "\"data\":{\"type\":\"annotated\",\"task\":\"tokens\",\"split\":0,\"path\":\"%s\","
                   "\"tokenizer\":\"" CLT_TEST_SOURCE_DIR "/tests/golden/tokenizers/bert\"%s}}",
                   path, keys);
    CLT_TRY(clt_config_parse(config_text, "columns.json", NULL, 0, &config));
    return clt_source_open(config, CLT_SPLIT_TRAIN, out);
}

TEST(faults_with_their_lines)
{
    static const char *const cases[][3] = {
        {"hello X O\n\nhello X O\nthere X\n", "",
         "', line 3: line 4: it has 2 columns, and the file's first word has 3; 1 of 2 samples"},
        {"hello O\n\n#there\n", ",\"class_names\":[\"B-X\"]", "', line 1: the label 'O' is not one of"},
        {"hello\tO\nthere\n", "", "line 2: it has 1 column, and the file's first word has 2"},
        {"hello\tO\n# there\n", "", "line 2: it has 1 column"},
        {"hello\t\tO\n", "", "line 1: its column 2 is empty"},
        {"\tX\tO\n", "", "line 1: its column 1 is empty"},
        {"hello O\nth\xe9re O\n", "", "line 2: it is not UTF-8; convert the file first"},
        {"1\ta\tO\n2\tb\tO\nx\tc\tO\n", "", "line 3: its first column is not the number of a word"},
        {"hello\nthere\n", "", "no member with a usual name for its labels"},
        {"hello O\n", ",\"label_member\":\"3\"", "its \"3\" must be a list"},
        {"1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 "
         "0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5\n",
         "", "line 1 has 65 columns, and a file with a word on each line has at most 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_source) *source = NULL;
        clt_status status = open_columns("a.conll", cases[i][0], cases[i][1], &source);
        if (status != CLT_EDATA || !strstr(clt_error_text(), cases[i][2]))
            fail_msg("%s: %s", cases[i][0], status == CLT_OK ? "is accepted" : clt_error_text());
    }
}

TEST(columns_become_classes)
{
    static const int32_t want[8] = {-1, 1, 2, 2, -1, -1, -1, -1};
    int32_t y[8];
    CLT_SCOPED(clt_source) *last = NULL;
    CLT_SCOPED(clt_source) *chosen = NULL;
    static const char text[] = "hello X I-A\nthere Y O\nwell Y O\n\nhello X B-A\n";
    assert_ok(open_columns("a.conll", text, "", &last));
    assert_int_equal(last->samples, 2);
    assert_int_equal(last->n_class_names, 3);
    assert_string_equal(last->class_names[0], "B-A");
    must_read(last, 0, 3, y);
    assert_memory_equal(y, want, sizeof want);
    assert_ok(open_columns("a.conll", text, ",\"label_member\":\"2\",\"text_member\":\"1\"", &chosen));
    assert_int_equal(chosen->n_class_names, 2);
    assert_string_equal(chosen->class_names[1], "Y");
}

/* A file counts as JSON Lines by the ending of its name, or by a first line that begins as an object
 * does. */
TEST(files_that_are_json_lines)
{
    static const char *const cases[][2] = {{"a.jsonl", "no record\n"},
                                           {"a.txt", "\n {\"tokens\":1}\n"},
                                           {"a.txt", "{ }\n"},
                                           {"a.json", "a O\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_texts) texts = {0};
        must_cut(cases[i][0], cases[i][1], &texts);
        assert_int_equal(texts.files[0].form, CLT_RECORD_LINES);
        assert_int_equal(texts.n_documents, 1);
    }
}

TEST_PROGRAM();
