/* SPDX-License-Identifier: Apache-2.0
 *
 * 200 conversations in every chat template: ids and trained tokens equal those of transformers'
 * apply_chat_template (make_golden_chat.py); and ids of 120 conversations with tools, calls and thoughts.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include "engine/data/chat/chat_samples.h"
#include "engine/files/fileio.h"

#define PLACE CLT_TEST_SOURCE_DIR "/tests/golden/chat/"

static uint32_t fnv(uint32_t value, uint32_t number)
{
    for (int byte = 0; byte < 4; byte++)
        value = (value ^ (number >> 8 * byte & 0xffu)) * 0x01000193u;
    return value;
}

/* A file of conversations, and whether its sums cover what is trained. */
typedef struct golden {
    const char *records, *sums;
    int64_t count;
    bool trained;
} golden;

/* Compares one conversation with its line of the golden file. */
static void check_sample(const golden *g, const clt_chat_samples *s, int64_t i, const char *template,
                         const char *line)
{
    char text[40] = "none";
    const clt_chat_sample *sample = &s->sample[i];
    uint32_t ids = 0x811c9dc5u, trained = ids;
    for (int64_t t = sample->begin; t < sample->begin + sample->count; t++) {
        ids = fnv(ids, s->tokens[t] & ~CLT_CHAT_TRAINED);
        trained = fnv(trained, s->tokens[t] >> 31);
    }
    if (!sample->why && g->trained)
        (void)snprintf(text, sizeof text, "%lld %08x %08x", (long long)sample->count, fnv(ids, UINT32_MAX),
                       fnv(trained, UINT32_MAX));
    else if (!sample->why)
        (void)snprintf(text, sizeof text, "%lld %08x", (long long)sample->count, fnv(ids, UINT32_MAX));
    if (strcmp(text, line) != 0)
        fail_msg("%s, conversation %lld: '%s', and transformers has '%s'%s%s", template, (long long)i, text,
                 line, sample->why ? ": " : "", sample->why ? sample->why : "");
}

/* Reads the conversations by a template and a tokenizer, and compares them with the lines that follow. */
static void check_template(const golden *g, const char *template, const char *tokenizer, char **line)
{
    char text[1200];
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_chat_samples) s = {0};
    (void)snprintf(text, sizeof text,
                   "{\"model\":{\"type\":\"llama\",\"layers\":1,\"heads\":1,\"channels\":2,\"context\":4096},"
                   "\"data\":{\"type\":\"chat\",\"path\":\"%s%s\",\"split\":0,\"tokenizer\":\"%s%s\","
                   "\"template\":\"%s\",\"date\":\"%s\"}}",
                   PLACE, g->records, PLACE, tokenizer, template,
                   strcmp(template, "llama3.2") ? "" : "29 Nov 2026");
    assert_ok(clt_config_parse(text, "chat.json", NULL, 0, &config));
    assert_ok(clt_chat_samples_open(config, CLT_SPLIT_TRAIN, &s));
    assert_int_equal(s.part.count, g->count);
    for (int64_t i = 0; i < s.part.count; i++)
        check_sample(g, &s, i, template, strsep(line, "\n"));
}

/* Returns how many templates the file has. */
static int check_file(const golden *g)
{
    CLT_FREED char *sums = NULL;
    char template[40], tokenizer[40], path[512];
    size_t size;
    int templates = 0;
    (void)snprintf(path, sizeof path, PLACE "%s", g->sums);
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &sums, &size));
    for (char *at = sums; at && *at; templates++) {
        const char *line = strsep(&at, "\n");
        assert_int_equal(sscanf(line, "%39s %39s", template, tokenizer), 2);
        check_template(g, template, tokenizer, &at);
    }
    return templates;
}

TEST(conversations_as_transformers_has_them)
{
    const golden chats = {"chats.jsonl", "sums.txt", 200, true};
    assert_int_equal(check_file(&chats), 18);
}

TEST(tools_and_thoughts_as_transformers_has_them)
{
    const golden tools = {"tools.jsonl", "tools_sums.txt", 120, false};
    assert_int_equal(check_file(&tools), 5);
}

TEST_PROGRAM();
