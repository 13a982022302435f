/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities of labels with BIO names: counts worked out by hand, sentences of random labels against the
 * tables of the evaluation of CoNLL-2000, and names that are not in BIO form. Needs no device.
 * ctest-labels: quick */
#include "engine/data/annotated/entities.h"

#include "tests/unit/test.h"

static const char *const names[] = {"O",     "B-PER", "I-PER", "B-LOC", "I-LOC",
                                    "E-PER", "S-PER", "E-LOC", "S-LOC"};
enum { NAMES = sizeof names / sizeof names[0] };

/* Reads labels from words separated by spaces. */
static int read_labels(const char *text, int32_t *out)
{
    int n = 0;
    for (const char *at = text; *at; n++) {
        size_t size = strcspn(at, " ");
        for (out[n] = 0; strlen(names[out[n]]) != size || strncmp(names[out[n]], at, size) != 0; ++out[n])
            assert_true(out[n] + 1 < NAMES);
        at += size + (at[size] == ' ');
    }
    return n;
}

TEST(entities_by_hand)
{
    static const struct {
        const char *data, *guess;
        int there[2], predicted[2], right[2]; /* PER, LOC */
    } cases[] = {
        {"O O", "O O", {0, 0}, {0, 0}, {0, 0}},
        {"B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC", {1, 1}, {1, 1}, {1, 1}},
        /* I after O begins an entity: IOB1 and IOB2 are read in the same way */
        {"O I-PER I-PER O", "O B-PER I-PER O", {1, 0}, {1, 0}, {1, 0}},
        {"I-PER B-PER", "B-PER I-PER", {2, 0}, {1, 0}, {0, 0}},
        /* I of another type begins an entity, too */
        {"B-PER I-LOC", "B-PER I-PER", {1, 1}, {1, 0}, {0, 0}},
        {"B-PER I-LOC I-LOC", "B-PER B-LOC I-LOC", {1, 1}, {1, 1}, {1, 1}},
        /* at the end of the sentence */
        {"O B-LOC I-LOC", "O B-LOC O", {0, 1}, {0, 1}, {0, 0}},
        {"O B-LOC I-LOC", "O I-LOC I-LOC", {0, 1}, {0, 1}, {0, 1}},
        /* the same words with another type, a longer entity, an earlier beginning */
        {"B-PER I-PER", "B-LOC I-LOC", {1, 0}, {0, 1}, {0, 0}},
        {"B-PER O O", "B-PER I-PER O", {1, 0}, {1, 0}, {0, 0}},
        {"O B-PER I-PER", "B-PER I-PER I-PER", {1, 0}, {1, 0}, {0, 0}},
        /* E and S */
        {"B-PER E-PER S-PER", "B-PER I-PER B-PER", {2, 0}, {2, 0}, {2, 0}},
        {"E-PER I-PER S-LOC I-LOC", "B-PER B-PER B-LOC B-LOC", {2, 2}, {2, 2}, {2, 2}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        CLT_SCOPED(clt_entities) *e = NULL;
        int32_t data[8], guess[8];
        int n = read_labels(cases[k].data, data);
        assert_int_equal(read_labels(cases[k].guess, guess), n);
        assert_ok(clt_entities_create(names, NAMES, &e));
        assert_int_equal(e->n_types, 2);
        assert_string_equal(e->type[1], "LOC");
        for (int twice = 0; twice < 2; twice++) { /* sentences end apart, and a reset leaves nothing */
            clt_entities_reset(e);
            for (int i = 0; i < 2 * n; i++) {
                clt_entities_word(e, data[i % n], guess[i % n]);
                if (i % n == n - 1)
                    clt_entities_end(e);
            }
        }
        for (int t = 0; t < 2; t++)
            if (e->there[t] != 2 * cases[k].there[t] || e->predicted[t] != 2 * cases[k].predicted[t] ||
                e->right[t] != 2 * cases[k].right[t])
                fail_msg("%s | %s: type %d: %d, %d, %d", cases[k].data, cases[k].guess, t, (int)e->there[t],
                         (int)e->predicted[t], (int)e->right[t]);
    }
}

TEST(figures_by_hand)
{
    /* PER: 2 in the data, 3 predicted, 1 right; LOC: 2, 1, 1 */
    static const char data_text[] = "B-PER O B-LOC O O B-LOC B-PER I-PER",
                      guess_text[] = "B-PER O B-LOC B-PER O O B-PER B-LOC";
    CLT_SCOPED(clt_entities) *e = NULL;
    int32_t data[8], guess[8];
    int n = read_labels(data_text, data);
    (void)read_labels(guess_text, guess);
    guess[7] = -1; /* a prediction that is not a class is O */
    assert_ok(clt_entities_create(names, NAMES, &e));
    assert_float_equal(clt_entities_figures(e, -1).f1, 0, 0);
    for (int i = 0; i < n; i++)
        clt_entities_word(e, data[i], guess[i]);
    clt_entities_end(e);
    clt_entity_figures all = clt_entities_figures(e, -1), place = clt_entities_figures(e, 1);
    assert_int_equal(all.there, 4);
    assert_float_equal(all.precision, 2.0 / 4, 1e-15);
    assert_float_equal(all.recall, 2.0 / 4, 1e-15);
    assert_float_equal(all.f1, 4.0 / 8, 1e-15);
    assert_float_equal(place.precision, 1, 0);
    assert_float_equal(place.recall, 1.0 / 2, 1e-15);
    assert_float_equal(place.f1, 2.0 / 3, 1e-15);
}

/* --- against the tables --- */

/* The pairs of marks between which an entity of the same type begins or ends, as the evaluation of
 * CoNLL-2000 and seqeval list them. */
static bool listed(const char *const *pairs, char before, char mark)
{
    for (; *pairs; pairs++)
        if ((*pairs)[0] == before && (*pairs)[1] == mark)
            return true;
    return false;
}

typedef struct piece {
    int first, last;
    const char *type;
} piece;

static int pieces_of(const int32_t *label, int n, piece *out)
{
    static const char *const begin[] = {"BB", "IB", "OB", "EB", "SB", "BS", "IS", "OS", "ES",
                                        "SS", "EE", "EI", "SE", "SI", "OE", "OI", NULL};
    static const char *const end[] = {"EB", "EI", "EE", "ES", "EO", "SB", "SI", "SE", "SS",
                                      "SO", "BB", "BS", "BO", "IB", "IS", "IO", NULL};
    const char *before = "O", *type = "", *mark;
    int count = 0, first = 0;
    for (int i = 0; i <= n; i++, before = mark) {
        mark = i < n ? names[label[i]] : "O";
        const char *own = mark[0] == 'O' ? "" : mark + 2;
        bool changes = strcmp(own, type) != 0;
        if (listed(end, before[0], mark[0]) || (before[0] != 'O' && changes))
            out[count++] = (piece){first, i - 1, type};
        if (listed(begin, before[0], mark[0]) || (mark[0] != 'O' && changes))
            first = i;
        type = own;
    }
    return count;
}

TEST(random_sentences)
{
    enum { WORDS = 12, SENTENCES = 3000 };
    CLT_SCOPED(clt_entities) *e = NULL;
    uint32_t draw = 7;
    int64_t there = 0, predicted = 0, right = 0;
    assert_ok(clt_entities_create(names, NAMES, &e));
    for (int s = 0; s < SENTENCES; s++) {
        int32_t label[2][WORDS];
        piece piece_of[2][WORDS + 1];
        int n = 1 + s % WORDS, count[2];
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < n; i++) {
                draw = draw * 1664525u + 1013904223u;
                label[side][i] = side && (draw >> 8) % 3 ? label[0][i] : (int32_t)((draw >> 16) % NAMES);
            }
            count[side] = pieces_of(label[side], n, piece_of[side]);
        }
        there += count[0];
        predicted += count[1];
        for (int a = 0; a < count[0]; a++)
            for (int b = 0; b < count[1]; b++)
                right += piece_of[0][a].first == piece_of[1][b].first &&
                         piece_of[0][a].last == piece_of[1][b].last &&
                         strcmp(piece_of[0][a].type, piece_of[1][b].type) == 0;
        for (int i = 0; i < n; i++)
            clt_entities_word(e, label[0][i], label[1][i]);
        clt_entities_end(e);
    }
    clt_entity_figures f = clt_entities_figures(e, -1);
    assert_true(right > 1000);
    assert_int_equal(f.there, there);
    assert_int_equal(f.predicted, predicted);
    assert_int_equal(f.right, right);
}

TEST(names_of_entities)
{
    static const struct {
        const char *names[3];
        bool want;
    } cases[] = {
        {{"B-PER", "I-PER", "O"}, true}, {{"B", "I", "O"}, true},          {{"B-a-b", "E-x", "S-y"}, true},
        {{"O", "O", "O"}, false},        {{"B-PER", "I-PER", "X"}, false}, {{"B-", "I-a", "O"}, false},
        {{"NOUN", "B-a", "O"}, false},   {{"BPER", "I-a", "O"}, false},    {{"O", "o", "B-a"}, false},
        {{"B-a", "", "O"}, false},       {{"U-a", "L-a", "O"}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (clt_entities_named(cases[i].names, 3) != cases[i].want)
            fail_msg("%s, %s, %s", cases[i].names[0], cases[i].names[1], cases[i].names[2]);
    assert_false(clt_entities_named(NULL, 0));
    CLT_SCOPED(clt_entities) *e = NULL;
    assert_ok(clt_entities_create(cases[1].names, 3, &e));
    assert_int_equal(e->n_types, 1);
    assert_string_equal(e->type[0], "_");
}

TEST_PROGRAM();
