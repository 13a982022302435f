/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 * Several hundred mutations of shipped configs, all of which must be detected. Needs no device. */
#include "tests/unit/models/config_texts.h"

typedef struct mutation_stats {
    int made, typos, typos_right;
} mutation_stats;

/* A key of a config, with its offsets in the text. */
typedef struct place {
    char section[64], key[64];
    size_t key_at, value_at, value_end; /* the key's first letter, begin and end of the value */
} place;

static size_t offset_of(const char *text, int line, int column)
{
    const char *at = text;
    while (--line > 0)
        at = strchr(at, '\n') + 1;
    return (size_t)(at - text) + (size_t)column - 1;
}

static size_t value_length(const char *text)
{
    int depth = 0;
    const char *c = text;
    do {
        if (*c == '"') {
            for (c++; *c != '"'; c++)
                c += *c == '\\';
        }
        depth += (*c == '[' || *c == '{') - (*c == ']' || *c == '}');
        c++;
    } while (depth > 0 || (*c != ',' && *c != '}' && *c != '\n' && *c != ']'));
    return (size_t)(c - text);
}

static int find_places(const char *text, place *places, int limit)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    int count = 0;
    assert_ok(clt_json_parse(text, strlen(text), "good", CLT_ECONFIG, &doc));
    for (const clt_json *s = clt_json_first(clt_json_root(doc)); s; s = clt_json_next(s))
        for (const clt_json *k = clt_json_first(s); k && count < limit; k = clt_json_next(k)) {
            place *p = &places[count++];
            char quoted[80];
            int line, column;
            snprintf(p->section, sizeof p->section, "%s", clt_json_key(s));
            snprintf(p->key, sizeof p->key, "%s", clt_json_key(k));
            clt_json_position(k, &line, &column);
            p->value_at = offset_of(text, line, column);
            p->value_end = p->value_at + value_length(text + p->value_at);
            snprintf(quoted, sizeof quoted, "\"%s\"", p->key);
            p->key_at = p->value_at;
            while (strncmp(text + p->key_at, quoted, strlen(quoted)) != 0)
                p->key_at--;
            p->key_at++;
        }
    return count;
}

/* The text with bytes from `from` to `to` - 1 replaced. */
static char *splice(const char *text, size_t from, size_t to, const char *with)
{
    size_t n = strlen(text), w = strlen(with);
    char *out = malloc(n + w + 1);
    assert_non_null(out);
    memcpy(out, text, from);
    memcpy(out + from, with, w);
    memcpy(out + from + w, text + to, n - to + 1);
    return out;
}

/* The mutated text must be refused with a message that names a line of the file, or the key. Frees the text.
 */
static void must_refuse(char *text, const char *what, const char *key, mutation_stats *stats)
{
    clt_config *config = NULL;
    clt_status status = clt_config_parse(text, "m.json", NULL, 0, &config);
    stats->made++;
    if (status != CLT_ECONFIG)
        fail_msg("%s (%s) was not refused (status %d %s):\n%s", what, key, status,
                 status ? clt_error_text() : "", text);
    bool named = strstr(clt_error_text(), "m.json:") &&
                 (strstr(clt_error_text(), key) || atoi(strstr(clt_error_text(), "m.json:") + 7) > 0);
    if (!named)
        fail_msg("%s (%s): the message names neither key nor line: %s", what, key, clt_error_text());
    free(text);
}

static bool is_schema_key(const char *section, const char *key)
{
    char path[160];
    snprintf(path, sizeof path, "%s.%s", section, key);
    for (const clt_config_key *k = clt_config_schema(); k->path; k++)
        if (strcmp(k->path, path) == 0)
            return true;
    return false;
}

/* One-edit typos at every position of a key: lost, doubled, swapped and wrong letter. */
static void mutate_key(const char *text, const place *p, mutation_stats *stats)
{
    size_t n = strlen(p->key);
    for (size_t at = 0; at < n; at++)
        for (int kind = 0; kind < 4; kind++) {
            char typo[80];
            snprintf(typo, sizeof typo, "%s", p->key);
            if (kind == 0)
                memmove(typo + at, typo + at + 1, n - at);
            else if (kind == 1)
                memmove(typo + at + 1, typo + at, n - at + 1);
            else if (kind == 2)
                typo[at] = (char)('a' + (typo[at] + 7) % 26);
            else if (at + 1 < n) {
                char c = typo[at];
                typo[at] = typo[at + 1];
                typo[at + 1] = c;
            }
            if (strcmp(typo, p->key) == 0 || is_schema_key(p->section, typo))
                continue;
            char right[160];
            snprintf(right, sizeof right, "did you mean '%s.%s'?", p->section, p->key);
            must_refuse(splice(text, p->key_at, p->key_at + n, typo), "typo", typo, stats);
            stats->typos++;
            if (strstr(clt_error_text(), right))
                stats->typos_right++;
            else
                print_message("typo %s.%s: %s\n", p->section, typo, clt_error_text());
        }
}

static const clt_config_key *schema_key(const place *p)
{
    char path[160];
    snprintf(path, sizeof path, "%s.%s", p->section, p->key);
    for (const clt_config_key *k = clt_config_schema(); k->path; k++)
        if (strcmp(k->path, path) == 0)
            return k;
    fail_msg("%s is not in the schema", path);
    return NULL;
}

static void mutate_value(const char *text, const place *p, mutation_stats *stats)
{
    static const char *const wrong[] = {"null", "{}", "[[1]]", "[{\"a\": 1}, 2]", "[true]"};
    const clt_config_key *key = schema_key(p);
    for (size_t i = 0; i < 5; i++)
        must_refuse(splice(text, p->value_at, p->value_end, wrong[i]), "wrong type", p->key, stats);
    bool number = key->type == CLT_CFG_INT || key->type == CLT_CFG_FLOAT || key->type == CLT_CFG_AUTO_INT ||
                  key->type == CLT_CFG_FLOATS;
    bool word = key->type == CLT_CFG_STRING || key->type == CLT_CFG_CHOICE || key->type == CLT_CFG_STRINGS;
    must_refuse(splice(text, p->value_at, p->value_end, word ? "3" : "\"3\""), "wrong type", p->key, stats);
    if (number || key->type == CLT_CFG_INTS) {
        const char *list = key->type == CLT_CFG_INTS ? "[-5]" : "-1e300";
        must_refuse(splice(text, p->value_at, p->value_end, list), "out of range", p->key, stats);
        must_refuse(splice(text, p->value_at, p->value_end, "1e400"), "beyond a double", p->key, stats);
        must_refuse(splice(text, p->value_at, p->value_end, "99999999999999999999999999999999999"),
                    "too large", p->key, stats);
        must_refuse(splice(text, p->value_at, p->value_end, "NaN"), "NaN", p->key, stats);
    }
    if (key->type == CLT_CFG_CHOICE)
        must_refuse(splice(text, p->value_at, p->value_end, "\"nonsense\""), "no choice", p->key, stats);
    CLT_FREED char *value = calloc(1, p->value_end - p->value_at + 1);
    assert_non_null(value);
    memcpy(value, text + p->value_at, p->value_end - p->value_at);
    clt_str nested = {0}, twice = {0};
    clt_str_printf(&nested, "{\"%s\": %s}", p->key, value);
    clt_str_printf(&twice, "%s, \"%s\": %s", value, p->key, value);
    must_refuse(splice(text, p->value_at, p->value_end, nested.text), "extra nesting", p->key, stats);
    must_refuse(splice(text, p->value_at, p->value_end, twice.text), "duplicate key", p->key, stats);
    clt_str_free(&nested);
    clt_str_free(&twice);
}

static void mutate_document(const char *text, mutation_stats *stats)
{
    size_t n = strlen(text), last = n - 1;
    while (text[last] != '}')
        last--;
    for (int i = 0; i < 20; i++) { /* cut anywhere before the last brace */
        size_t at = last * (size_t)i / 20;
        must_refuse(splice(text, at, n, ""), "truncated", "", stats);
    }
    must_refuse(splice(text, last, last, ","), "trailing comma", "", stats);
    must_refuse(splice(text, last, last, ", \"modell\": {}"), "unknown section", "modell", stats);
    must_refuse(splice(text, last, last, ", \"\": {}"), "empty section", "", stats);
    must_refuse(splice(text, last, last, ", \"model\": {}"), "duplicate section", "model", stats);
    must_refuse(splice(text, n, n, "{}"), "trailing text", "", stats);
    must_refuse(splice(text, 0, 0, "\xef\xbb\xbf"), "byte order mark", "", stats);
    must_refuse(splice(text, 0, 0, "["), "open bracket", "", stats);
    must_refuse(splice(text, 1, 1, "/* no */"), "comment", "", stats);
    size_t inside = strcspn(text, "\"") + 1;
    must_refuse(splice(text, inside, inside, "\xff"), "bad UTF-8", "", stats);
    must_refuse(splice(text, inside, inside, "\xc0\x80"), "overlong UTF-8", "", stats);
    must_refuse(splice(text, inside, inside, "\xed\xa0\x80"), "surrogate", "", stats);
    must_refuse(splice(text, inside, inside, "\\u0000"), "NUL escape", "", stats);
    must_refuse(splice(text, inside, inside, "\n"), "line break in a key", "", stats);
}

/* A NUL byte can only be in a file: clt_config_parse takes a C string. */
static void mutate_file(const char *text, mutation_stats *stats)
{
    size_t n = strlen(text);
    for (int i = 0; i < 4; i++) {
        char path[] = "/tmp/clt_config_XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        FILE *file = fdopen(fd, "w");
        size_t at = n * (size_t)(2 * i + 1) / 8;
        fwrite(text, 1, at, file);
        fputc(0, file);
        fwrite(text + at, 1, n - at, file);
        fclose(file);
        clt_config *config = NULL;
        assert_int_equal(clt_config_load(path, NULL, 0, &config), CLT_ECONFIG);
        assert_non_null(strstr(clt_error_text(), path));
        stats->made++;
        remove(path);
    }
}

TEST(test_mutations)
{
    mutation_stats stats = {0};
    for (size_t i = 0; i < 4; i++) {
        place places[64];
        CLT_FREED char *text = read_shipped(shipped[i]);
        int count = find_places(text, places, 64);
        assert_true(count > 10);
        for (int p = 0; p < count; p++) {
            mutate_key(text, &places[p], &stats);
            mutate_value(text, &places[p], &stats);
        }
        mutate_document(text, &stats);
        mutate_file(text, &stats);
    }
    print_message("%d mutations refused; %d of %d typos got the right key\n", stats.made, stats.typos_right,
                  stats.typos);
    assert_true(stats.made >= 200);
    assert_true(stats.typos >= 200);
    assert_true(stats.typos_right * 100 >= stats.typos * 95);
}
