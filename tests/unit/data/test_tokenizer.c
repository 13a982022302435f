/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers: the published GPT-2 vocabulary with known encodings (if the shared data exists), small
 * vocabularies made by the test, arbitrary bytes, training, saving. ctest-labels: quick */
#include "tests/unit/data/tokenizer_test.h"

#include "engine/base/hash.h"
#include "engine/base/thread.h"
#include "engine/data/texts/characters.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

/* --- GPT-2's vocabulary --- */

static const char *shared(const char *name)
{
    static char path[2][1024];
    static int turn;
    const char *root = getenv("CLTRAIN_SOURCE_DIR");
    turn = !turn;
    (void)snprintf(path[turn], sizeof path[turn], "%s/../shared/data/%s", root ? root : CLT_TEST_SOURCE_DIR,
                   name);
    if (clt_file_exists(path[turn]))
        return path[turn];
    print_message("skipped: %s is not on this machine\n", path[turn]);
    skip();
    return NULL;
}

static uint32_t hex4(const char *at)
{
    char digits[5] = {at[0], at[1], at[2], at[3], 0};
    return (uint32_t)strtoul(digits, NULL, 16);
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80u | (code & 0x3fu));
    out[0] = (char)((0xf00u >> size & 0xffu) | code);
    return size;
}

/* Reads the string at *at, which points after its opening quote. The project's own reader refuses the NUL
 * that one of the strings holds. */
static size_t read_string(const char **at, char *out)
{
    size_t size = 0;
    const char *p = *at;
    for (; *p != '"'; p++) {
        if (*p != '\\') {
            out[size++] = *p;
            continue;
        }
        const char *plain = strchr("n\nt\tr\rb\bf\f\"\"\\\\//", *++p);
        if (*p != 'u') {
            out[size++] = plain[1];
            continue;
        }
        uint32_t code = hex4(p + 1);
        p += 4;
        if (code >= 0xd800 && code < 0xdc00) {
            code = 0x10000 + ((code - 0xd800) << 10) + (hex4(p + 3) - 0xdc00);
            p += 6;
        }
        size += put_utf8(out + size, code);
    }
    *at = p + 1;
    return size;
}

TEST(test_known_encodings)
{
    CLT_FREED char *known = NULL;
    char text[4096];
    size_t size = 0;
    int pairs = 0, ids_seen = 0, with_nul = 0;
    assert_ok(clt_file_read(shared("gpt2/known_encodings.json"), false, 0, CLT_EDATA, &known, &size));
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(shared("gpt2"));
    assert_int_equal(clt_tokenizer_vocab(t), 50257);
    assert_int_equal(clt_tokenizer_end_of_text(t), 50256);
    assert_false(clt_tokenizer_is_bytes(t));
    for (const char *at = known; (at = strstr(at, "{\"text\": \"")) != NULL; pairs++) {
        at += strlen("{\"text\": \"");
        size_t length = read_string(&at, text);
        uint32_t want[512];
        size_t count = 0;
        at = strstr(at, "\"ids\": [") + strlen("\"ids\": [");
        for (char *end; *at != ']'; at = *end == ',' ? end + 1 : end)
            want[count++] = (uint32_t)strtoul(at, &end, 10);
        clt_ids got = encode_all(t, text, length);
        expect_ids(&got, want, count);
        free(got.id);
        assert_int_equal(round_trip(t, text, length), count);
        ids_seen += (int)count;
        with_nul += memchr(text, 0, length) != NULL;
    }
    assert_int_equal(pairs, 97);
    assert_int_equal(ids_seen, 990);
    assert_int_equal(with_nul, 1);
}

TEST(test_shakespeare)
{
    static const uint32_t first[] = {5962, 22307, 25, 198, 8421}, last[] = {14210, 1242, 23137, 13, 198};
    char *text = NULL;
    size_t size = 0;
    assert_ok(clt_file_read(shared("tinyshakespeare/input.txt"), false, 0, CLT_EDATA, &text, &size));
    assert_int_equal(size, 1115394);
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(shared("gpt2/vocab.bpe")); /* its partner lies beside it */
    clt_ids ids = encode_all(t, text, size);
    assert_int_equal(ids.count, 338025);
    assert_memory_equal(ids.id, first, sizeof first);
    assert_memory_equal(ids.id + ids.count - 5, last, sizeof last);
    /* All of them: the hash of the little-endian u16 file whose sha256 is 25c01b32...76cd31. */
    uint8_t *raw = malloc(2 * ids.count);
    assert_non_null(raw);
    for (size_t i = 0; i < ids.count; i++) {
        raw[2 * i] = (uint8_t)ids.id[i];
        raw[2 * i + 1] = (uint8_t)(ids.id[i] >> 8);
    }
    assert_true(clt_hash64(raw, 2 * ids.count) == UINT64_C(0xec7d405218fb2b81));
    clt_encoder *encoder;
    assert_ok(clt_encoder_create(t, &encoder));
    double begin = clt_thread_cpu();
    ids.count = 0;
    assert_ok(clt_encode(encoder, text, size, &ids));
    print_message("tokenised at %.1f MB/s per core\n", (double)size / (clt_thread_cpu() - begin) / 1e6);
    assert_int_equal(ids.count, 338025);
    clt_encoder_destroy(encoder);
    free(raw);
    free(ids.id);
    free(text);
    /* the same vocabulary through our own tokenizer.json */
    assert_ok(clt_tokenizer_save(t, in_dir("gpt2.json")));
    CLT_SCOPED(clt_tokenizer) *again = open_tokenizer(in_dir("gpt2.json"));
    assert_true(clt_tokenizer_hash(t) == clt_tokenizer_hash(again));
    assert_int_equal(clt_tokenizer_end_of_text(again), 50256);
}

/* --- bytes --- */

TEST(test_bytes)
{
    char all[512];
    for (int i = 0; i < 512; i++)
        all[i] = (char)(i / 2);
    clt_tokenizer *t = open_tokenizer("");
    assert_true(clt_tokenizer_is_bytes(t));
    assert_int_equal(clt_tokenizer_vocab(t), 256);
    assert_int_equal(clt_tokenizer_end_of_text(t), -1);
    clt_ids ids = encode_all(t, all, sizeof all);
    assert_int_equal(ids.count, 512);
    for (uint32_t i = 0; i < 512; i++)
        assert_int_equal(ids.id[i], i / 2);
    free(ids.id);
    assert_int_equal(round_trip(t, all, sizeof all), 512);
    assert_int_equal(round_trip(t, "", 0), 0);
    uint32_t beyond[] = {65, 256};
    clt_str text = {0};
    assert_int_equal(clt_tokenizer_decode(t, beyond, 2, &text), CLT_EDATA);
    expect_words("id 256|place 1|0 to 255");
    clt_str_free(&text);
    /* saved as a vocabulary of 256 letters without merges, and recognised again */
    assert_ok(clt_tokenizer_save(t, in_dir("bytes.json")));
    clt_tokenizer *again = open_tokenizer(in_dir("bytes.json"));
    assert_true(clt_tokenizer_is_bytes(again) && clt_tokenizer_hash(again) == clt_tokenizer_hash(t));
    clt_tokenizer_close(again);
    clt_tokenizer_close(t);
    t = open_tokenizer("bytes");
    assert_true(clt_tokenizer_is_bytes(t));
    clt_tokenizer_close(t);
    clt_tokenizer_close(NULL);
}

TEST(test_letters)
{
    bool seen[512] = {false};
    char back[4];
    size_t count;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        CLT_SCOPED(clt_str) letters = {0};
        clt_letters_of_bytes(&text, 1, &letters);
        assert_false(seen[clt_byte_letter((uint8_t)byte)]);
        seen[clt_byte_letter((uint8_t)byte)] = true;
        assert_true(clt_bytes_of_letters(letters.text, letters.length, back, &count));
        assert_true(count == 1 && (uint8_t)back[0] == byte);
    }
    assert_int_equal(clt_byte_letter(' '), 0x120); /* the letter that stands for a space in vocabularies */
    assert_int_equal(clt_byte_letter('\n'), 0x10a);
    assert_int_equal(clt_byte_letter(0xad), 0x143);
    assert_int_equal(clt_byte_of_order(0), '!');
    assert_int_equal(clt_byte_of_order(188), 0);
    assert_int_equal(clt_byte_of_order(255), 0xad);
    assert_false(clt_bytes_of_letters(" ", 1, back, &count));
    assert_false(clt_bytes_of_letters("\xc5\x84", 2, back, &count)); /* U+0144, one after the last letter */
    assert_false(clt_bytes_of_letters("\xe6\x97\xa5", 3, back, &count));
}

/* --- merges against their definition --- */

/* Applies each merge in turn to the whole word, from left to right. */
static size_t merge_by_definition(const clt_tokenizer *t, const char *word, size_t n, uint32_t *id)
{
    for (size_t i = 0; i < n; i++)
        id[i] = t->byte_token[(uint8_t)word[i]];
    for (uint32_t r = 0; r < t->n_merges; r++) {
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            bool joins = i + 1 < n && id[i] == t->merges[r].left && id[i + 1] == t->merges[r].right;
            id[kept++] = joins ? t->merges[r].id : id[i];
            i += joins;
        }
        n = kept;
    }
    return n;
}

TEST(test_merges)
{
    char word[400];
    uint32_t want[400];
    clt_tokenizer *t = small_tokenizer();
    size_t merged = 0;
    for (uint64_t k = 0; k < 600; k++) {
        size_t size = 1 + test_random(k * 1000) % (k % 3 == 0 ? 400 : 70); /* short and long words */
        static const char letters[] = "quickbrownshesellsshellsthedogjumpsovertheotherthingreturnthere";
        for (size_t i = 0, from = 0; i < size; i++) { /* fragments of words the vocabulary knows */
            uint32_t r = test_random(k * 1000 + 1 + i);
            from = i == 0 || r % 5 == 0 ? r / 8 % (sizeof letters - 1) : (from + 1) % (sizeof letters - 1);
            word[i] = letters[from];
        }
        size_t count = merge_by_definition(t, word, size, want);
        clt_ids got = encode_all(t, word, size);
        expect_ids(&got, want, count);
        free(got.id);
        merged += size - count;
    }
    assert_true(merged > 10000);
    clt_tokenizer_close(t);
}

/* --- any bytes --- */

TEST(test_any_bytes)
{
    static const char *const odd[] = {"\xff",
                                      "a\xff",
                                      "\xc3",
                                      "a\xe6\x97",
                                      "\xed\xa0\x80 x",
                                      "\xf4\x90\x80\x80",
                                      "\xc0\xaf",
                                      " \xff \xfe\n",
                                      "\xe3\x80\x80\xe3\x80\x80x",
                                      "\xc2\xa0\xc2\x85 \xe2\x80\xa8y",
                                      "don't'",
                                      "''s 'S",
                                      "\r\n\r\n",
                                      " "};
    CLT_SCOPED(clt_tokenizer) *t = small_tokenizer();
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        round_trip(t, odd[i], strlen(odd[i]));
    char bytes[3000];
    for (uint64_t k = 0; k < 40; k++) {
        size_t size = test_random(k << 20) % sizeof bytes;
        for (size_t i = 0; i < size; i++) {
            uint32_t r = test_random((k << 20) + 1 + i);
            bytes[i] = k % 4 == 0 ? (char)r : k % 4 == 1 ? " \n\t\xa0\xc2"[r % 5] : sample_text[r % 200];
        }
        round_trip(t, bytes, size);
    }
    assert_int_equal(round_trip(t, "", 0), 0);
    round_trip(t, "\0\0 a\0", 5);
    /* a special token's name is plain text */
    clt_ids ids = encode_all(t, "<|endoftext|>", 13);
    assert_true(ids.count > 1);
    for (size_t i = 0; i < ids.count; i++)
        assert_true(ids.id[i] != (uint32_t)clt_tokenizer_end_of_text(t));
    free(ids.id);
}

/* Words of a megabyte must not take a megabyte squared. */
TEST(test_long_words)
{
    size_t size = 1000000;
    CLT_FREED char *text = malloc(size);
    assert_non_null(text);
    CLT_SCOPED(clt_tokenizer) *t = small_tokenizer();
    memset(text, ' ', size);
    text[size - 1] = 'x';
    round_trip(t, text, size);
    for (size_t i = 0; i < size; i++)
        text[i] = "the"[i % 3];
    assert_true(round_trip(t, text, size) < size / 2);
    memset(text, 0xff, size);
    round_trip(t, text, size);
    memset(text, 'e', size);
    round_trip(t, text, size);
}

/* --- cutting and threads --- */

static clt_status gather(void *context, const uint32_t *ids, size_t count, size_t bytes)
{
    clt_ids *all = context;
    (void)bytes;
    if (count == 0)
        return CLT_OK;
    CLT_TRY(clt_grow(&all->id, &all->capacity, all->count + count, sizeof *all->id, "ids"));
    memcpy(all->id + all->count, ids, count * sizeof *ids);
    all->count += count;
    return CLT_OK;
}

static clt_status refuse(void *context, const uint32_t *ids, size_t count, size_t bytes)
{
    (void)context;
    (void)ids;
    (void)count;
    CLT_FAIL(CLT_ESTORAGE, "no more after %zu bytes", bytes);
}

TEST(test_cut)
{
    static const char *const parts[] = {
        "the",  " ",    "  ",   "\n",           "'s",           "1",    "\xc2\xa0",
        "dog",  "\t",   "!?",   "\xe3\x80\x80", "\xe6\x97\xa5", "\xff", "\xc2\x85",
        " she", "\r\n", "\xc3", "\xe2\x80\xa8", "\xc3\xa9",     "'"};
    clt_tokenizer *t = small_tokenizer();
    for (uint64_t k = 0; k < 150; k++) {
        char text[200];
        size_t size = 0, inner = 0;
        while (size < 60) {
            const char *part = parts[test_random(k * 100 + inner++) % (sizeof parts / sizeof parts[0])];
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
        clt_ids whole = encode_all(t, text, size);
        for (size_t want = 0; want <= size; want++) {
            size_t cut = clt_tokenize_cut(NULL, text, size, want);
            assert_true(cut <= size && (cut > 0 || size == 0));
            clt_ids both = encode_all(t, text, cut);
            clt_ids right = encode_all(t, text + cut, size - cut);
            assert_ok(gather(&both, right.id, right.count, 0));
            expect_ids(&both, whole.id, whole.count);
            free(both.id);
            free(right.id);
        }
        free(whole.id);
    }
    clt_tokenizer_close(t);
}

TEST(test_threads)
{
    size_t size;
    char *text = long_text(14000, &size); /* long enough for several pieces */
    CLT_SCOPED(clt_tokenizer) *t = small_tokenizer();
    clt_ids whole = encode_all(t, text, size);
    for (int threads = 1; threads <= 3; threads += 2) {
        clt_ids ids = {0};
        assert_ok(clt_tokenize(t, text, size, threads, gather, &ids));
        assert_int_equal(ids.count, whole.count);
        assert_memory_equal(ids.id, whole.id, whole.count * sizeof *ids.id);
        free(ids.id);
    }
    assert_int_equal(clt_tokenize(t, text, size, 2, refuse, NULL), CLT_ESTORAGE);
    expect_words("no more after");
    assert_ok(clt_tokenize(t, text, 0, 2, refuse, NULL)); /* no ids to deliver */
    free(whole.id);
    free(text);
}

/* --- training --- */

TEST(test_training)
{
    size_t size;
    char *text = long_text(50, &size);
    clt_tokenizer *t = train_on(text, size, 330), *other = NULL, *loaded;
    assert_int_equal(clt_tokenizer_vocab(t), 330);
    assert_int_equal(clt_tokenizer_end_of_text(t), 329);
    assert_true(round_trip(t, text, size) < size * 2 / 3);
    /* the same text in pieces and in another order gives the same vocabulary */
    clt_bpe_trainer *trainer;
    assert_ok(clt_bpe_trainer_create(&trainer));
    size_t one = sizeof sample_text - 1;
    for (size_t i = 0; i < 50; i++)
        assert_ok(clt_bpe_trainer_add(trainer, text + (49 - i) * one, one));
    assert_ok(clt_bpe_trainer_run(trainer, 330, NULL, NULL, &other));
    clt_bpe_trainer_destroy(trainer);
    assert_true(clt_tokenizer_hash(t) == clt_tokenizer_hash(other));
    clt_tokenizer_close(other);
    /* saved and loaded */
    assert_ok(clt_tokenizer_save(t, in_dir("tokenizer.json")));
    loaded = open_tokenizer(test_folder());
    assert_true(clt_tokenizer_hash(t) == clt_tokenizer_hash(loaded));
    assert_int_equal(clt_tokenizer_end_of_text(loaded), 329);
    assert_non_null(strstr(clt_tokenizer_description(loaded), "330 tokens"));
    clt_ids a = encode_all(t, text, size), b = encode_all(loaded, text, size);
    expect_ids(&a, b.id, b.count);
    free(a.id);
    free(b.id);
    clt_tokenizer_close(loaded);
    clt_tokenizer_close(t);
    free(text);
    assert_ok(clt_remove_tree(in_dir("tokenizer.json")));
}

/* Which merges come about, by hand: ties go to the smaller ids, a pair must occur twice. */
TEST(test_training_order)
{
    static const char text[] = "ab ab ab cd cd cd xy";
    clt_tokenizer *t = train_on(text, strlen(text), 10000);
    /* The pairs ab and cd occur three times each, in equal numbers; 'a' has the smaller id. Then " cd",
     * three times, and " ab", twice. Nothing else occurs twice. */
    static const char *const want[] = {"ab", "cd", " ab", " cd"};
    assert_int_equal(t->n_merges, 4);
    assert_int_equal(clt_tokenizer_vocab(t), 256 + 4 + 1);
    clt_ids ids = encode_all(t, " cd cd ab", 9);
    assert_int_equal(ids.count, 3);
    bool found[4] = {false};
    for (uint32_t i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            found[k] |= t->tokens[256 + i].size == strlen(want[k]) &&
                        memcmp(t->tokens[256 + i].bytes, want[k], strlen(want[k])) == 0;
    assert_true(found[0] && found[1] && found[2] && found[3]);
    assert_memory_equal(t->tokens[256].bytes, "ab", 2);
    assert_memory_equal(t->tokens[257].bytes, "cd", 2);
    free(ids.id);
    clt_tokenizer_close(t);
    /* overlapping pairs of one letter */
    t = train_on("aaaa aaaa aaaa", 14, 300);
    assert_memory_equal(t->tokens[256].bytes, "aa", 2);
    round_trip(t, "aaaaa aaa a", 11);
    clt_tokenizer_close(t);
}

static clt_status stop_training(void *context, uint32_t merges, uint32_t of)
{
    *(uint32_t *)context = of;
    CLT_FAIL(CLT_EINTERRUPTED, "stopped at merge %u", merges);
}

TEST(test_training_refused)
{
    clt_bpe_trainer *trainer;
    clt_tokenizer *t = NULL;
    uint32_t of = 0;
    size_t size;
    CLT_FREED char *text = long_text(4, &size);
    clt_bpe_trainer_destroy(NULL);
    assert_ok(clt_bpe_trainer_create(&trainer));
    assert_int_equal(clt_bpe_trainer_run(trainer, 300, NULL, NULL, &t), CLT_EDATA);
    expect_words("no text");
    assert_ok(clt_bpe_trainer_add(trainer, text, size));
    assert_int_equal(clt_bpe_trainer_run(trainer, 256, NULL, NULL, &t), CLT_EUSAGE);
    expect_words("256 tokens|257");
    assert_int_equal(clt_bpe_trainer_run(trainer, CLT_TOKENIZER_MAX_VOCAB + 1, NULL, NULL, &t), CLT_EUSAGE);
    assert_int_equal(clt_bpe_trainer_run(trainer, 400, stop_training, &of, &t), CLT_EINTERRUPTED);
    assert_null(t);
    assert_int_equal(of, 400 - 257);
    clt_bpe_trainer_destroy(trainer);
    /* only the bytes and the end of text */
    t = train_on(text, size, 257);
    assert_int_equal(round_trip(t, text, size), size);
    clt_tokenizer_close(t);
}

/* Normal form C sorts marks by their classes, also if there are very many of them. */
TEST(test_nfc_marks)
{
    enum { PAIRS = 1000000 };
    clt_str text = {0}, normal = {0};
    /* above (U+0301, class 230), then below (U+0323, class 220), which joins the e first */
    assert_ok(clt_nfc("e\xcc\x81\xcc\xa3", 5, &normal));
    assert_string_equal(normal.text, "\xe1\xba\xb9\xcc\x81");
    clt_str_free(&normal);
    clt_str_append(&text, "q");
    for (int i = 0; i < PAIRS; i++)
        clt_str_append(&text, "\xcc\x81\xcc\xa3");
    assert_ok(clt_nfc(text.text, text.length, &normal));
    assert_int_equal(normal.length, text.length);
    assert_int_equal(normal.text[0], 'q');
    for (size_t i = 0; i < 2 * (size_t)PAIRS; i++)
        assert_memory_equal(normal.text + 1 + 2 * i, i < PAIRS ? "\xcc\xa3" : "\xcc\x81", 2);
    clt_str_free(&text);
    clt_str_free(&normal);
}

/* Only runs of characters that may change are composed; their neighbours stay, except that the starter
 * before a run takes part in it. */
TEST(test_nfc_at_the_borders_of_runs)
{
    static const struct {
        const char *text, *normal;
    } cases[] = {
        {"plain", "plain"},
        {"\xcc\x81", "\xcc\x81"},  /* a mark alone */
        {"e\xcc\x81", "\xc3\xa9"}, /* the whole text is one run */
        {"ae\xcc\x81"
         "a",
         "a\xc3\xa9"
         "a"},                                        /* a run between starters */
        {"\xc3\xa9\xcc\xa3", "\xe1\xba\xb9\xcc\x81"}, /* a composed starter of two bytes */
        {"\xd0\xb8\xd0\xb8\xcc\x86\xd0\xb8", "\xd0\xb8\xd0\xb9\xd0\xb8"},     /* Cyrillic */
        {"\xe1\xb8\x8d\xcc\x87z", "\xe1\xb8\x8d\xcc\x87z"},                   /* nothing composes */
        {"\xe2\x84\xab", "\xc3\x85"},                                         /* the Angstrom sign */
        {"x\xe2\x84\xab\xcc\x81y", "x\xc7\xbay"},                             /* the result joins a mark */
        {"\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"},             /* Hangul of three parts */
        {"\xed\x95\x98\xe1\x86\xab\xed\x95\x98", "\xed\x95\x9c\xed\x95\x98"}, /* a syllable and a tail */
        {"e\xff\xcc\x81", "e\xff\xcc\x81"},                                   /* an invalid byte divides */
        {"\xc3\xcc\x81", "\xc3\xcc\x81"},  /* a character cut off before a mark */
        {"e\xcc\x81\xcc", "\xc3\xa9\xcc"}, /* and at the end */
        {"e\xcc\x81"
         "e\xcc\x81",
         "\xc3\xa9\xc3\xa9"}, /* two runs side by side */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_str) normal = {0};
        size_t size = strlen(cases[i].text);
        assert_ok(clt_nfc(cases[i].text, size, &normal));
        assert_string_equal(normal.text, cases[i].normal);
        if (clt_nfc_is_plain(cases[i].text, size))
            assert_string_equal(cases[i].text, cases[i].normal);
    }
    assert_true(clt_nfc_is_plain("\xe4\xb8\xad\xd0\xb8\xc3\xa9", 7)); /* such characters may not change */
    assert_false(clt_nfc_is_plain("\xd0\xb8\xcc\x86", 4));
}

/* A text of one character counts as plain only if form C keeps it; decomposing it to form D does not change
 * its form C. */
TEST(test_nfc_of_every_character)
{
    int changed = 0;
    for (uint32_t code = 1; code < 0x110000; code++) {
        CLT_SCOPED(clt_str) text = {0};
        CLT_SCOPED(clt_str) normal = {0};
        CLT_SCOPED(clt_str) again = {0};
        clt_append_code(code, &text);
        assert_ok(clt_nfc(text.text, text.length, &normal));
        bool same = strcmp(text.text, normal.text) == 0;
        assert_true(same || !clt_nfc_is_plain(text.text, text.length));
        assert_ok(clt_nfd(text.text, text.length, &again));
        CLT_SCOPED(clt_str) back = {0};
        assert_ok(clt_nfc(again.text, again.length, &back));
        assert_string_equal(back.text, normal.text); /* form D leads to the same form C */
        changed += !same;
    }
    assert_int_equal(changed, 1120); /* the number of characters with NFC_Quick_Check=No */
}
