/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabulary files: every published form, and every fault of a file that would lead to wrong ids.
 * ctest-labels: quick */
#include "tests/unit/data/tokenizer_test.h"

#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

/* The members of a vocabulary: the 256 single bytes, then the given extra ones. */
static void base_vocab(clt_str *out, const char *extra)
{
    for (unsigned i = 0; i < 256; i++) {
        char byte = (char)clt_byte_of_order(i);
        clt_str_append(out, i ? "," : "");
        clt_str_append(out, byte == '"' || byte == '\\' ? "\"\\" : "\"");
        clt_letters_of_bytes(&byte, 1, out);
        clt_str_printf(out, "\":%u", i);
    }
    clt_str_append(out, extra);
}

/* "\304\240" is the letter of a space. */
#define SP "\304\240"
#define EXTRA ",\"he\":256,\"hel\":257,\"" SP "h\":258,\"lo\":259,\"<|endoftext|>\":260"
#define MERGES "#version: 0.2\nh e\nhe l\n" SP " h\nl o\n"

static void put_vocab(const char *name, const char *extra)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_str_append(&text, "{");
    base_vocab(&text, extra);
    clt_str_append(&text, "}");
    put_file(name, text.text, text.length);
}

static void put_merges(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

/* A tokenizer.json with these parts; `rest` is inserted before the model, `more` inside it. */
static void put_json(const char *name, const char *extra, const char *merges, const char *rest,
                     const char *more)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_str_printf(&text, "{\"version\":\"1.0\",%s\"model\":{\"type\":\"BPE\",%s\"vocab\":{", rest, more);
    base_vocab(&text, extra);
    clt_str_printf(&text, "},\"merges\":%s}}", merges);
    put_file(name, text.text, text.length);
}

#define LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
#define MERGES_STRINGS "[\"h e\",\"he l\",\"" SP " h\",\"l o\"]"
#define MERGES_PAIRS "[[\"h\",\"e\"],[\"he\",\"l\"],[\"" SP "\",\"h\"],[\"l\",\"o\"]]"

/* "hello hello": hel lo SPh e l lo -> 'h e' comes before 'SP h', so the second word is SP hel lo */
static void expect_hello(const clt_tokenizer *t)
{
    uint32_t want[] = {257, 259, 0, 257, 259};
    want[2] = t->byte_token[' '];
    clt_ids ids = encode_all(t, "hello hello", 11);
    expect_ids(&ids, want, 5);
    free(ids.id);
    assert_int_equal(round_trip(t, "hi hello", 8), 5); /* SPh: "h" "i" " h" ... */
}

TEST(test_pair_of_files)
{
    static const char *const names[][2] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};
    for (int i = 0; i < 2; i++) {
        put_vocab(names[i][0], EXTRA);
        put_merges(names[i][1],
                   i ? MERGES : "h e\r\nhe l\r\n" SP " h\r\nl o"); /* without version and last newline */
        const char *const ways[] = {test_folder(), in_dir(names[i][0]), in_dir(names[i][1])};
        for (int k = 0; k < 3; k++) {
            CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(ways[k]);
            assert_int_equal(clt_tokenizer_vocab(t), 261);
            assert_int_equal(clt_tokenizer_end_of_text(t), 260);
            assert_int_equal(t->n_merges, 4);
            clt_ids ids = encode_all(t, "hello", 5);
            uint32_t want[] = {257, 259};
            expect_ids(&ids, want, 2);
            free(ids.id);
        }
        assert_int_equal(unlink(in_dir(names[i][0])), 0);
        assert_int_equal(unlink(in_dir(names[i][1])), 0);
    }
}

TEST(test_tokenizer_json)
{
    put_json("s.json", EXTRA, MERGES_STRINGS, LEVEL, "");
    put_json("p.json", EXTRA, MERGES_PAIRS, LEVEL, "\"dropout\":null,\"unk_token\":null,");
    clt_tokenizer *s = open_tokenizer(in_dir("s.json")), *p = open_tokenizer(in_dir("p.json"));
    assert_true(clt_tokenizer_hash(s) == clt_tokenizer_hash(p));
    expect_hello(s);
    expect_hello(p);
    clt_tokenizer_close(s);
    clt_tokenizer_close(p);
    /* added tokens: one that the vocabulary has, one that it has not and that holds a space */
    put_json("a.json", EXTRA, MERGES_STRINGS,
             LEVEL "\"added_tokens\":[{\"id\":260,\"content\":\"<|endoftext|>\"},{\"id\":261,\"content\":\"a "
                   "b\"}],\"normalizer\":null,\"decoder\":{\"type\":\"ByteLevel\"},",
             "");
    clt_tokenizer *a = open_tokenizer(in_dir("a.json"));
    uint32_t special[] = {261, 260};
    clt_str text = {0};
    assert_int_equal(clt_tokenizer_vocab(a), 262);
    assert_ok(clt_tokenizer_decode(a, special, 2, &text));
    assert_string_equal(text.text, "a b<|endoftext|>");
    clt_str_free(&text);
    clt_ids ids = encode_all(a, "a b", 3);
    assert_int_equal(ids.count, 3);
    free(ids.id);
    /* saved, it is the same */
    assert_ok(clt_tokenizer_save(a, in_dir("again.json")));
    clt_tokenizer *again = open_tokenizer(in_dir("again.json"));
    assert_true(clt_tokenizer_hash(a) == clt_tokenizer_hash(again));
    clt_tokenizer_close(again);
    clt_tokenizer_close(a);
    /* a word that is one token: "hel" without the merge that makes it */
    put_json("i.json", EXTRA, "[\"h e\"]", LEVEL, "\"ignore_merges\":true,");
    clt_tokenizer *i = open_tokenizer(in_dir("i.json"));
    ids = encode_all(i, "hel", 3);
    uint32_t want[] = {257};
    expect_ids(&ids, want, 1);
    free(ids.id);
    clt_tokenizer_close(i);
}

static void expect_bad(const char *path, const char *words)
{
    clt_tokenizer *t = NULL;
    clt_error_clear();
    clt_status status = clt_tokenizer_open(path, &t);
    if (status != CLT_EDATA)
        fail_msg("%s for %s (%s): %s", clt_status_name(status), path, words, clt_error_text());
    assert_null(t);
    expect_words(words);
}

static void bad_vocab(const char *extra, const char *words)
{
    put_vocab("vocab.json", extra);
    expect_bad(in_dir("vocab.json"), words);
}

TEST(test_bad_vocab)
{
    put_merges("merges.txt", MERGES);
    bad_vocab(",\"he\":255", "vocab.json:1:|\"he\"|id 255|already");
    bad_vocab(",\"he\":257", "\"he\"|257 is out of range|257 tokens|0 to 256");
    bad_vocab(",\"he\":-1", "-1 is out of range");
    bad_vocab(",\"he\":1000000000000000000", "out of range");
    bad_vocab(",\"he\":4294967296", "4294967296 is out of range");
    bad_vocab(",\"he\":256.0", "\"he\"|not an integer");
    bad_vocab(",\"he\":\"256\"", "\"he\"|not an integer");
    bad_vocab(",\"\":256", "must have 1 to 65535");
    bad_vocab(",\"he\":256,\"he\":257", "duplicate key|he");
    bad_vocab(",\"he\":256,\"h", "vocab.json:1:"); /* cut off */
    bad_vocab(",\"\xff\":256", "vocab.json:1:|UTF-8");
    put_file("vocab.json", "{\"a\":0,\"b\":1}", 13);
    expect_bad(in_dir("vocab.json"), "single byte 0x00|byte-level");
    put_file("vocab.json", "{}", 2);
    expect_bad(in_dir("vocab.json"), "single byte");
    put_file("vocab.json", "[1]", 3);
    expect_bad(in_dir("vocab.json"), "is an array|object");
    put_file("vocab.json", "", 0);
    expect_bad(in_dir("vocab.json"), "vocab.json");
    char *large = malloc(70000);
    assert_non_null(large);
    memset(large, 'h', 70000);
    memcpy(large, ",\"", 2);
    memcpy(large + 69990, "\":256", 6);
    bad_vocab(large, "must have 1 to 65535");
    free(large);
    /* an entry that is not in byte letters is kept as it is, and no text is encoded to it */
    put_vocab("vocab.json", EXTRA ",\"a b\":261");
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(in_dir("vocab.json"));
    assert_int_equal(round_trip(t, "a b", 3), 3);
}

static void bad_merges(const char *text, const char *words)
{
    put_merges("merges.txt", text);
    expect_bad(in_dir("merges.txt"), words);
}

TEST(test_bad_merges)
{
    put_vocab("vocab.json", EXTRA);
    bad_merges("#version: 0.2\nh e\nh zz\n", "merges.txt': line 3|merge 2|no token 'zz'");
    bad_merges("zz e\n", "line 1|no token 'zz'");
    bad_merges("\xe6\x97\xa5 e\n", "no token");
    bad_merges("h e\nh o\n", "line 2|no token for the bytes that this merge joins");
    bad_merges("h e\nh e\n", "line 2|twice");
    bad_merges("h e\nhe\n", "line 2|not two tokens with one space");
    bad_merges("h e\nhe  l\n", "line 2|one space");
    bad_merges("h e\n he\n", "line 2|one space");
    bad_merges("h e\nhe \n", "line 2|one space");
    bad_merges("h e\nhe l x\n", "line 2|one space");
    bad_merges("h e\n#version: 0.2\n", "line 2"); /* only at the top */
    bad_merges("h e\n\xff e\n", "line 2|UTF-8");
    bad_merges("", "empty");
    put_file("merges.txt", "h e\n\0 e\n", 8);
    expect_bad(in_dir("merges.txt"), "line 2|UTF-8");
    put_merges("merges.txt", "");
    assert_int_equal(truncate(in_dir("merges.txt"), 65 << 20), 0);
    expect_bad(in_dir("merges.txt"), "merges.txt|more than");
    /* cut off at the end of a line: the vocabulary has many tokens that no merge makes */
    clt_str extra = {0};
    for (int i = 0; i < 300; i++)
        clt_str_printf(&extra, ",\"t%d\":%d", i, 256 + i);
    put_vocab("vocab.json", extra.text);
    clt_str_free(&extra);
    bad_merges("#version: 0.2\nt 0\n", "299 tokens|made by no merge|cut off");
}

static void bad_json(const char *extra, const char *merges, const char *rest, const char *more,
                     const char *words)
{
    put_json("tokenizer.json", extra, merges, rest, more);
    expect_bad(in_dir("tokenizer.json"), words);
}

#define POST(text) LEVEL "\"post_processor\":" text ","
#define TEXT_PIECE "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define TOKEN_PIECE "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}"
#define TEMPLATE(pieces) "{\"type\":\"TemplateProcessing\",\"single\":[" pieces "],\"special_tokens\":{}}"
#define SEQUENCE(parts) "{\"type\":\"Sequence\",\"processors\":[" parts "]}"

/* Post-processors that would change ids, or that are unknown. */
static void bad_post_processors(void)
{
    static const char *const bad[][2] = {
        {POST("{\"type\":\"TemplateProcessing\"}"), "post_processor|template is not one text"},
        {POST(TEMPLATE("")), "template is not one text"},
        {POST(TEMPLATE(TEXT_PIECE "," TEXT_PIECE)), "template is not one text"},
        {POST(TEMPLATE(TOKEN_PIECE "," TEXT_PIECE)), "token that it does not define"},
        {POST(TEMPLATE(TEXT_PIECE "," TOKEN_PIECE)), "token that it does not define"},
        {POST(TEMPLATE("7")), "token that it does not define"},
        {POST(SEQUENCE("{\"type\":\"ByteLevel\"}," TEMPLATE(TEXT_PIECE "," TOKEN_PIECE))), "does not define"},
        {POST("{\"type\":\"Sequence\"}"), "Sequence without its list"},
        {POST("{\"type\":\"RobertaProcessing\"}"), "tokens that have no ids"},
        {POST("{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",900],\"sep\":[\"b\",3]}"), "adds the id 900"},
        {POST("{\"type\":7}"), "post_processor of type"},
        {POST("[]"), "post_processor of type (none)"},
        {POST(SEQUENCE(
             SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(SEQUENCE(""))))))))))),
         "post_processor of type Sequence"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        bad_json(EXTRA, "[]", bad[i][0], "", bad[i][1]);
}

/* Post-processors that other programs write and that change no id. */
TEST(test_idle_post_processors)
{
    static const char *const good[] = {
        POST("null"),
        POST("{\"type\":\"ByteLevel\",\"trim_offsets\":false}"),
        POST(TEMPLATE(TEXT_PIECE)),
        POST(SEQUENCE("")),
        POST(SEQUENCE("{\"type\":\"ByteLevel\"}," SEQUENCE(TEMPLATE(TEXT_PIECE)))),
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        put_json("post.json", EXTRA, MERGES_STRINGS, good[i], "");
        CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(in_dir("post.json"));
        expect_hello(t);
    }
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\"}"
#define PARTS(parts) "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" parts "]},"
#define SPLIT(behavior)                                                                                      \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?"        \
    "[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"" behavior "\"}"

#define LETTER "\xe2\x96\x81"
#define METASPACE(more) "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" LETTER "\"" more "},"
#define NORMAL(parts) "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" parts "]},"
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":\"" LETTER "\"}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" LETTER "\"}"
#define STRIP(start, stop)                                                                                   \
    "\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":" start ",\"stop\":" stop "},"

/* Settings of SentencePiece's kind that the tokenizers library supports and cltrain does not. */
static void bad_sentence_json(void)
{
    bad_json(EXTRA, "[]", "\"pre_tokenizer\":{\"type\":\"Metaspace\"},", "", "another replacement");
    bad_json(EXTRA, "[]", METASPACE(",\"prepend_scheme\":\"last\""), "", "unknown prepend_scheme");
    bad_json(EXTRA, "[]", METASPACE("") NORMAL("{\"type\":\"NFC\"}"), "", "beside a pre_tokenizer");
    bad_json(EXTRA, "[]", METASPACE("") NORMAL(PREPEND), "", "beside a pre_tokenizer");
    bad_json(EXTRA, "[]", METASPACE("") NORMAL(REPLACE), "", "pre_tokenizer of type Metaspace");
    bad_json(EXTRA, "[]", NORMAL(PREPEND "," REPLACE ",{\"type\":\"NFC\"}"), "", "together with");
    bad_json(EXTRA, "[]", NORMAL(PREPEND "," PREPEND), "", "changes the text other than");
    bad_json(EXTRA, "[]", NORMAL(PREPEND), "", "Prepend without a Replace");
    bad_json(EXTRA, "[]", NORMAL("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\" \"}"),
             "", "changes the text other than");
    bad_json(EXTRA, "[]", METASPACE(""), "\"unk_token\":\"<missing>\",",
             "unk_token that the vocabulary lacks");
    bad_json(EXTRA, "[]", METASPACE("") STRIP("2", "0"), "", "Strip of more than one");
    bad_json(EXTRA, "[]", METASPACE("") STRIP("1", "1"), "", "Strip of more than one");
    bad_json(EXTRA, "[]", METASPACE("") "\"decoder\":{\"type\":\"CTC\"},", "", "decoder of type CTC");
    bad_json(EXTRA, "[\"h zz\"]", METASPACE(""), "", "no token 'zz'");
}

static char told[600];
static void keep_line(void *context, clt_log_level level, const char *line)
{
    (void)context;
    if (level == CLT_LOG_WARN)
        (void)snprintf(told, sizeof told, "%s", line);
}

/* A warning says that characters without a token are left out, and appears only where that can happen. */
TEST(test_characters_left_out)
{
    static const char warning[] = "characters without a token are removed from texts";
    clt_log_set_copy(keep_line, NULL, CLT_LOG_WARN);
    put_json("known.json", EXTRA, MERGES_STRINGS, METASPACE(""), "\"unk_token\":\"h\",");
    CLT_SCOPED(clt_tokenizer) *known = open_tokenizer(in_dir("known.json"));
    assert_null(strstr(told, warning));
    put_json("left.json", EXTRA, MERGES_STRINGS, METASPACE(""), "");
    CLT_SCOPED(clt_tokenizer) *left = open_tokenizer(in_dir("left.json"));
    clt_log_set_copy(NULL, NULL, CLT_LOG_WARN);
    assert_non_null(strstr(told, warning));
    clt_ids ids = encode_all(left, "h\xe4\xbd\xa0", 4);
    assert_int_equal(ids.count, 1);
    free(ids.id);
}

TEST(test_bad_tokenizer_json)
{
    bad_json(EXTRA, "[\"h zz\"]", LEVEL, "", "tokenizer.json:1:|no token 'zz'");
    bad_json(EXTRA, "[[\"h\"]]", LEVEL, "", "merge 1|neither");
    bad_json(EXTRA, "[[\"h\",\"e\",\"l\"]]", LEVEL, "", "neither");
    bad_json(EXTRA, "[[\"h\",1]]", LEVEL, "", "neither");
    bad_json(EXTRA, "[7]", LEVEL, "", "neither");
    bad_json(EXTRA, "[\"he\"]", LEVEL, "", "one space");
    bad_json(EXTRA, "{}", LEVEL, "", "model.merges is an object");
    bad_json(EXTRA, "[\"h e\",\"h e\"]", LEVEL, "", "merge 2|twice");
    bad_json(EXTRA, "[]", "", "", "no pre_tokenizer|not supported");
    bad_sentence_json();
    bad_json(EXTRA, "[]", PARTS("{\"type\":\"Digits\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"),
             "", "add_prefix_space after");
    bad_json(EXTRA, "[]", PARTS("{\"type\":\"Digits\"}"), "", "without ByteLevel");
    bad_json(EXTRA, "[]", PARTS(""), "", "without parts");
    bad_json(EXTRA, "[]", PARTS("{\"type\":\"Punctuation\"}," BYTE_LEVEL), "", "type Punctuation");
    bad_json(EXTRA, "[]", PARTS(BYTE_LEVEL ",{\"type\":\"Digits\"}"), "", "type Digits");
    bad_json(EXTRA, "[]", PARTS("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"}}," BYTE_LEVEL), "",
             "expression that is not known");
    bad_json(EXTRA, "[]", PARTS(SPLIT("Removed") "," BYTE_LEVEL), "", "does not isolate");
    bad_json(EXTRA, "[]", PARTS(SPLIT("Isolated") "," BYTE_LEVEL), "", "use_regex true after a Split");
    bad_json(EXTRA, "[]", "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":false},", "", "use_regex");
    bad_json(EXTRA, "[]", LEVEL "\"normalizer\":{\"type\":\"NFKC\"},", "", "normalizer of type NFKC");
    bad_json(EXTRA, "[]", LEVEL "\"decoder\":{\"type\":\"WordPiece\"},", "", "decoder");
    bad_post_processors();
    bad_json(EXTRA, "[]", LEVEL, "\"dropout\":0.1,", "dropout");
    bad_json(EXTRA, "[]", LEVEL, "\"byte_fallback\":true,", "byte_fallback");
    bad_json(EXTRA, "[]", LEVEL, "\"end_of_word_suffix\":\"</w>\",", "end_of_word_suffix");
    bad_json(EXTRA, "[]", LEVEL, "\"continuing_subword_prefix\":\"##\",", "continuing_subword_prefix");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":[{\"id\":5,\"content\":\"he\"}],", "", "\"he\"|another id");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":[{\"id\":5,\"content\":\"new\"}],", "", "id 5|already");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"new\"}],", "", "out of range");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":[{\"content\":\"new\"}],", "", "\"id\"");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":[{\"id\":1.5,\"content\":\"new\"}],", "", "not an integer");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":[{\"id\":261}],", "", "content");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":[5],", "", "content");
    bad_json(EXTRA, "[]", LEVEL "\"added_tokens\":{},", "", "added_tokens is an object");
    put_file("tokenizer.json", "{\"model\":{\"type\":\"Unigram\"}}", 28);
    expect_bad(in_dir("tokenizer.json"), "model other than BPE");
    put_file("tokenizer.json", "{\"model\":{}}", 12);
    expect_bad(in_dir("tokenizer.json"), "pre_tokenizer");
    put_file("tokenizer.json", "", 0);
    assert_int_equal(truncate(in_dir("tokenizer.json"), 101 << 20), 0);
    expect_bad(in_dir("tokenizer.json"), "tokenizer.json|more than");
    assert_int_equal(unlink(in_dir("tokenizer.json")), 0);
}

/* --- the files beside a vocabulary --- */

static void expect_encoding(const clt_tokenizer *t, const char *text, const uint32_t *want, size_t count)
{
    clt_ids ids = encode_all(t, text, strlen(text));
    expect_ids(&ids, want, count);
    free(ids.id);
}

static void put_side(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

TEST(test_sides_of_a_pair)
{
    size_t before, after;
    put_vocab("vocab.json", EXTRA);
    put_merges("merges.txt", MERGES);
    put_side("added_tokens.json", "{\"<a>\": 261}");
    put_side("tokenizer_config.json",
             "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": true, \"add_bos_token\": true, "
             "\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"pad_token\": \"[PAD]\"}");
    put_side("special_tokens_map.json", "{\"pad_token\": \"[OTHER]\", \"eos_token\": \"</s>\"}");
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(test_folder());
    assert_int_equal(clt_tokenizer_vocab(t), 265);
    assert_int_equal(clt_tokenizer_role(t, CLT_TOKEN_BEGIN), 262);
    assert_int_equal(clt_tokenizer_end_of_text(t), 263);
    assert_int_equal(clt_tokenizer_role(t, CLT_TOKEN_PADDING), 264);
    assert_int_equal(clt_tokenizer_role(t, CLT_TOKEN_UNKNOWN), -1);
    assert_int_equal(clt_tokenizer_before(t, &before)[0], 262);
    assert_true(clt_tokenizer_after(t, &after) && before == 1 && after == 0);
    assert_int_equal(clt_tokenizer_text_bytes(t, 261), 3); /* a token that is not special is text */
    assert_int_equal(clt_tokenizer_text_bytes(t, 264), 0);
    /* " h" "e" ...: a space before each text between added tokens */
    const uint32_t want[] = {258, t->byte_token['i'], 261, 258, t->byte_token['i']};
    expect_encoding(t, "hi<a>hi", want, 5);
    clt_str names = {0};
    assert_true(clt_tokenizer_surplus(t, 262, &names));
    assert_string_equal(names.text, "<s> (262), </s> (263), [PAD] (264)");
    names.length = 0;
    assert_false(clt_tokenizer_surplus(t, 261, &names)); /* text leads to <a> */
    clt_str_free(&names);
    assert_string_equal(clt_tokenizer_special_in(t, "a </s>", 6), "</s>");
    assert_null(clt_tokenizer_special_in(t, "a < /s>", 7));
}

/* Contents of tokenizer_config.json beside a tokenizer.json or a pair, and the words of the refusal. */
TEST(test_sides_refused)
{
    static const char *const pairs[][2] = {
        {"{\"tokenizer_class\": \"RobertaTokenizer\"}", "tokenizer_config.json:1:|tokenizer_class"},
        {"{\"tokenizer_class\": \"Qwen2Tokenizer\", \"add_prefix_space\": true}", "add_prefix_space"},
        {"{\"add_bos_token\": true, \"bos_token\": 7}", "\"bos_token\" is neither"},
        {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"<b>\"}}}", "\"x\" is not an id"},
        {"{\"added_tokens_decoder\": {\"\": {\"content\": \"<b>\"}}}", "\"\" is not an id"},
        {"{\"added_tokens_decoder\": {\" 7\": {\"content\": \"<b>\"}}}", "\" 7\" is not an id"},
        {"{\"added_tokens_decoder\": {\"4294967299\": {\"content\": \"<b>\"}}}",
         "\"4294967299\" is not an id"},
        {"{\"added_tokens_decoder\": {\"261\": {}}}", "no \"content\""},
        {"{\"added_tokens_decoder\": {\"261\": {\"content\": \"he\"}}}", "\"he\" has another id"},
        {"{\"added_tokens_decoder\": {\"270\": {\"content\": \"<b>\"}}}", "out of range"},
        {"[]", "is not a JSON object"},
        {"version https://git-lfs.github.com/spec/v1\noid", "git-lfs pointer"},
    };
    static const char *const wholes[][2] = {
        {"{\"added_tokens_decoder\": {\"261\": {\"content\": \"<a>\", \"lstrip\": true}}}", "other settings"},
        {"{\"added_tokens_decoder\": {\"262\": {\"content\": \"<a>\"}}}", "262 here and 261"},
    };
    assert_int_equal(mkdir(in_dir("pair"), 0700), 0);
    assert_int_equal(mkdir(in_dir("whole"), 0700), 0);
    put_vocab("pair/vocab.json", EXTRA);
    put_merges("pair/merges.txt", MERGES);
    put_json(
        "whole/tokenizer.json", EXTRA, MERGES_STRINGS,
        PARTS("{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL) "\"added_tokens\":[{\"id\":261,"
                                                                              "\"content\":\"<a>\","
                                                                              "\"special\":true}],",
        "");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        put_side("pair/tokenizer_config.json", pairs[i][0]);
        expect_bad(in_dir("pair"), pairs[i][1]);
    }
    /* a class with rules that differ from the file's changes nothing (SmolLM2 is published in this way) */
    static const char *const classes[] = {"GPT2TokenizerFast", "Qwen2Tokenizer"};
    CLT_SCOPED(clt_tokenizer) *plain = open_tokenizer(in_dir("whole"));
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        char side[100];
        (void)snprintf(side, sizeof side, "{\"tokenizer_class\": \"%s\", \"add_prefix_space\": true}",
                       classes[i]);
        put_side("whole/tokenizer_config.json", side);
        CLT_SCOPED(clt_tokenizer) *same = open_tokenizer(in_dir("whole"));
        assert_true(clt_tokenizer_hash(same) == clt_tokenizer_hash(plain));
    }
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        put_side("whole/tokenizer_config.json", wholes[i][0]);
        expect_bad(in_dir("whole"), wholes[i][1]);
    }
}

TEST(test_missing)
{
    expect_bad("/nowhere/tok", "/nowhere/tok");
    assert_int_equal(mkdir(in_dir("empty"), 0700), 0);
    expect_bad(in_dir("empty"), "empty'|tokenizer.json|vocab.json|check the path");
    expect_bad(in_dir("empty/merges.txt"), "vocab.json|beside");
    put_vocab("empty/vocab.json", EXTRA);
    expect_bad(in_dir("empty"), "vocabulary without merges|merges.txt");
}

/* Every single byte of a small tokenizer changed, and every length: accepted or refused, never a crash. */
TEST(test_damage)
{
    clt_str text = {0};
    CLT_FREED char *file = NULL;
    size_t size = 0;
    int accepted = 0, refused = 0;
    put_json("d.json", EXTRA, MERGES_PAIRS, LEVEL, "");
    assert_ok(clt_file_read(in_dir("d.json"), false, 0, CLT_EDATA, &file, &size));
    for (size_t i = 0; i < 2 * size; i += 1 + i % 7) {
        CLT_SCOPED(clt_tokenizer) *t = NULL;
        text.length = 0;
        clt_str_append_n(&text, file, i < size ? size : i - size);
        if (i < size)
            text.text[i] = (char)test_random(i);
        put_file("d.json", text.text, text.length);
        clt_status status = clt_tokenizer_open(in_dir("d.json"), &t);
        assert_true(status == CLT_OK || status == CLT_EDATA);
        accepted += status == CLT_OK;
        refused += status != CLT_OK;
    }
    assert_true(refused > 500);
    print_message("%d damaged files refused, %d still good\n", refused, accepted);
    clt_str_free(&text);
}
