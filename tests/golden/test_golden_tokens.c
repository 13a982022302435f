/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of twelve tokenizers equal transformers' (make_golden_tokens.py): 2,000 strings, with names of
 * special tokens as text and as tokens, and code points in five contexts; the text of ids; the same ids
 * from a text that is cut into pieces.
 * ctest-labels: quick */
#include "tests/unit/data/tokenizer_test.h"

#include "engine/base/thread.h"
#include "engine/data/texts/characters.h"
#include "engine/json/json.h"

#define BLOCK 4096u
#define CODES 0x110000u
#define PLACE CLT_TEST_SOURCE_DIR "/tests/golden/tokenizers/"

static const char *const contexts[][3] = {
    /* text before, between and after the two places of a character; NULL: the character occurs once */
    {"", NULL, ""}, {"a", NULL, "b"}, {" ", NULL, " x"}, {"'", " 1", ""}, {"\n", "", "\n\n!"},
};

static uint32_t fnv(uint32_t value, const uint32_t *ids, size_t count)
{
    static const uint32_t end = UINT32_MAX;
    for (size_t i = 0; i <= count; i++)
        for (int byte = 0; byte < 4; byte++)
            value = (value ^ ((i < count ? ids[i] : end) >> 8 * byte & 0xffu)) * 0x01000193u;
    return value;
}

static uint32_t sum_of(const clt_tokenizer *t, clt_encoder *encoder, uint32_t value, const char *text)
{
    clt_ids ids = {0};
    size_t before, after;
    const uint32_t *first = clt_tokenizer_before(t, &before), *last = clt_tokenizer_after(t, &after);
    assert_ok(clt_encode(encoder, text, strlen(text), &ids));
    assert_ok(clt_grow(&ids.id, &ids.capacity, ids.count + before + after, 4, "ids"));
    memmove(ids.id + before, ids.id, ids.count * sizeof *ids.id);
    memcpy(ids.id, first, before * sizeof *first);
    memcpy(ids.id + before + ids.count, last, after * sizeof *last);
    value = fnv(value, ids.id, before + ids.count + after);
    free(ids.id);
    return value;
}

static void expect_sum(const char **line, uint32_t sum, const char *name, const char *what, uint32_t number)
{
    char text[12];
    (void)snprintf(text, sizeof text, "%08x", sum);
    if (strncmp(*line, text, 8) != 0)
        fail_msg("%s: %s %u: other ids than transformers'", name, what, number);
    *line += 9;
}

static void check_codes(const clt_tokenizer *t, clt_encoder *encoder, const char *name, const char **line)
{
    clt_str text = {0};
    for (size_t c = 0; c < sizeof contexts / sizeof contexts[0]; c++)
        for (uint32_t start = 0; start < CODES; start += BLOCK) {
            uint32_t sum = 0x811c9dc5u;
            if (strncmp(*line, "none", 4) == 0) { /* surrogates */
                *line += 5;
                continue;
            }
            for (uint32_t code = start; code < start + BLOCK; code++) {
                if (code == 0 || (code >= 0xd800 && code < 0xe000))
                    continue;
                text.length = 0;
                clt_str_append(&text, contexts[c][0]);
                clt_append_code(code, &text);
                clt_str_append(&text, contexts[c][1] ? contexts[c][1] : "");
                if (contexts[c][1])
                    clt_append_code(code, &text);
                clt_str_append(&text, contexts[c][2]);
                sum = sum_of(t, encoder, sum, text.text);
            }
            expect_sum(line, sum, name, "code points from", start);
        }
    clt_str_free(&text);
}

/* The text of the ids of every string, as a whole and token by token. */
static void check_texts(const clt_tokenizer *t, clt_encoder *encoder, const clt_json_doc *doc,
                        const char *name, const char **line)
{
    uint32_t number = 0;
    if (!**line)
        return;
    for (const clt_json *one = clt_json_first(clt_json_root(doc)); one; one = clt_json_next(one)) {
        clt_ids ids = {0};
        clt_str whole = {0}, parts = {0};
        uint32_t bytes[4096];
        assert_ok(clt_encode(encoder, clt_json_string(one), strlen(clt_json_string(one)), &ids));
        clt_str_append(&parts, "");
        assert_ok(clt_tokenizer_decode(t, ids.id, ids.count, &whole));
        for (size_t i = 0; i < ids.count; i++)
            assert_ok(clt_tokenizer_decode_next(t, ids.id[i], i == 0, &parts));
        assert_true(whole.length < 4096);
        assert_int_equal(whole.length, parts.length);
        for (size_t i = 0; i < whole.length; i++)
            bytes[i] = (uint8_t)parts.text[i];
        expect_sum(line, fnv(0x811c9dc5u, bytes, whole.length), name, "text of the ids of string", number++);
        free(ids.id);
        clt_str_free(&whole);
        clt_str_free(&parts);
    }
}

/* Prints how fast a text is encoded; the second time its words are cached, and the ids must be the same. */
static void show_speed(const clt_tokenizer *t, const char *text, size_t size, const char *name,
                       const char *what)
{
    clt_encoder *encoder;
    clt_ids cold = {0}, warm = {0};
    assert_ok(clt_encoder_create(t, &encoder));
    double begin = clt_thread_cpu();
    assert_ok(clt_encode(encoder, text, size, &cold));
    double middle = clt_thread_cpu();
    assert_ok(clt_encode(encoder, text, size, &warm));
    double end = clt_thread_cpu();
    print_message("%s, %s: %.1f MB/s per core, %.1f when its words are cached\n", name, what,
                  (double)size / (middle - begin) / 1e6, (double)size / (end - middle) / 1e6);
    assert_int_equal(cold.count, warm.count);
    assert_memory_equal(cold.id, warm.id, cold.count * sizeof *cold.id);
    clt_encoder_destroy(encoder);
    free(cold.id);
    free(warm.id);
}

/* All strings as one text: encoded as a whole, and in pieces of about 150 bytes, they give the same ids. */
static void check_pieces(const clt_tokenizer *t, clt_encoder *encoder, const clt_json_doc *doc,
                         const char *name)
{
    clt_str text = {0};
    clt_ids whole = {0}, cut = {0};
    for (const clt_json *one = clt_json_first(clt_json_root(doc)); one; one = clt_json_next(one))
        clt_str_printf(&text, "%s ", clt_json_string(one));
    assert_ok(clt_encode(encoder, text.text, text.length, &whole));
    for (size_t at = 0, size; at < text.length; at += size) {
        size = clt_tokenize_cut(t, text.text + at, text.length - at, 150);
        assert_ok(clt_encode_marked(encoder, text.text + at, size, NULL, 0,
                                    at ? CLT_TEXT_CONTINUES : CLT_TEXT_BEGINS, &cut));
    }
    show_speed(t, text.text, text.length, name, "hostile strings");
    assert_int_equal(whole.count, cut.count);
    assert_memory_equal(whole.id, cut.id, whole.count * sizeof *whole.id);
    free(whole.id);
    free(cut.id);
    clt_str_free(&text);
}

/* state: the name of the tokenizer. It is also tested after it was saved as a tokenizer.json and read
 * again. */
static void test_tokenizer(void **state)
{
    const char *name = *state;
    char path[400], *sums = NULL;
    size_t size;
    clt_json_doc *doc;
    clt_tokenizer *first;
    assert_ok(clt_json_parse_file(PLACE "strings.json", CLT_EDATA, &doc));
    (void)snprintf(path, sizeof path, PLACE "%s/ids.txt", name);
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &sums, &size));
    (void)snprintf(path, sizeof path, PLACE "%s", name);
    if (clt_tokenizer_open(path, &first) != CLT_OK)
        fail_msg("%s", clt_error_text());
    assert_ok(clt_tokenizer_save_folder(first, 0, test_folder()));
    clt_tokenizer *again = open_tokenizer(test_folder());
    assert_true(clt_tokenizer_hash(first) == clt_tokenizer_hash(again));
    for (clt_token_role role = 0; role < CLT_TOKEN_ROLES; role++)
        assert_int_equal(clt_tokenizer_role(first, role), clt_tokenizer_role(again, role));
    for (int pass = 0; pass < 2; pass++) {
        clt_tokenizer *t = pass ? again : first;
        clt_encoder *encoder;
        const char *line = sums;
        assert_ok(clt_encoder_create(t, &encoder));
        for (int special = 0; special < 2; special++) {
            uint32_t number = 0;
            clt_tokenizer_read_special(t, special == 1);
            for (const clt_json *one = clt_json_first(clt_json_root(doc)); one; one = clt_json_next(one))
                expect_sum(&line, sum_of(t, encoder, 0x811c9dc5u, clt_json_string(one)), name,
                           special ? "with special tokens, string" : "string", number++);
        }
        clt_tokenizer_read_special(t, false);
        check_pieces(t, encoder, doc, name);
        if (pass == 0) {
            size_t length;
            CLT_FREED char *text = long_text(5000, &length);
            show_speed(t, text, length, name, "sentences");
            check_codes(t, encoder, name, &line);
            check_texts(t, encoder, doc, name, &line);
        }
        clt_encoder_destroy(encoder);
    }
    clt_tokenizer_close(first);
    clt_tokenizer_close(again);
    clt_json_destroy(doc);
    free(sums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"gpt2", test_tokenizer, NULL, NULL, "gpt2"},
        {"prefix", test_tokenizer, NULL, NULL, "prefix"},
        {"added", test_tokenizer, NULL, NULL, "added"},
        {"llama3", test_tokenizer, NULL, NULL, "llama3"},
        {"qwen2", test_tokenizer, NULL, NULL, "qwen2"},
        {"bert", test_tokenizer, NULL, NULL, "bert"},
        {"bert_cased", test_tokenizer, NULL, NULL, "bert_cased"},
        {"llama2", test_tokenizer, NULL, NULL, "llama2"},
        {"mistral", test_tokenizer, NULL, NULL, "mistral"},
        {"gemma", test_tokenizer, NULL, NULL, "gemma"},
        {"metaspace", test_tokenizer, NULL, NULL, "metaspace"},
        {"letters", test_tokenizer, NULL, NULL, "letters"},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
