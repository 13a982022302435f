/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain new for records that hold text but are not plain text: conversations, and texts with labels. No
 * config is written for them, since it would depend on the weights that are fine-tuned; the message names
 * the data.type that reads them. */
#include <string.h>

#include "cli/data/new_config.h"
#include "engine/data/texts/text_paths.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"

typedef struct record_form {
    const char *members[3]; /* a record must have all of them; "a|b": one of the two */
    const char *what, *type, *page;
} record_form;

#define CHAT "chat", "Conversations and instructions: fine-tuning"
#define ANNOTATED(task) "annotated data.task=" task, "Texts with classes, labels of words, answers"

static const record_form forms[] = {
    {{"messages|conversations"}, "conversations", CHAT},
    {{"prompt", "completion"}, "prompts and completions", CHAT},
    {{"instruction", "output"}, "instructions and answers", CHAT},
    {{"tokens|words", "ner_tags|tags|labels|pos_tags|chunk_tags"}, "words with labels", ANNOTATED("tokens")},
    {{"question", "context", "answers"}, "questions with answers in a text", ANNOTATED("span")},
    {{"text|sentence|sentence1|premise|question1|text1|text_a", "label|gold_label|is_duplicate"},
     "texts with labels",
     ANNOTATED("class")},
};

/* True if a record has one of the members in the list `names`, which are separated by '|'. */
static bool has_member(const clt_json *record, const char *names)
{
    for (const char *c = names; *c;) {
        char name[32] = {0};
        size_t n = strcspn(c, "|");
        memcpy(name, c, n < sizeof name ? n : sizeof name - 1);
        if (clt_json_get(record, name))
            return true;
        c += n + (c[n] == '|');
    }
    return false;
}

static bool has_form(const clt_json *record, const record_form *form)
{
    for (size_t k = 0; k < sizeof form->members / sizeof *form->members && form->members[k]; k++)
        if (!has_member(record, form->members[k]))
            return false;
    return true;
}

clt_status new_config_check_record(const char *path, const clt_json *record)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (has_form(record, &forms[i]))
            CLT_FAIL(CLT_EUSAGE,
                     "cltrain new: '%s' holds %s, which data.type=%s reads; no config is written for them, "
                     "since they are for fine-tuning: docs/data.md shows one under \"%s\". To train a new "
                     "language model on only one member of the records, give --json-key NAME",
                     path, forms[i].what, forms[i].type, forms[i].page);
    return CLT_OK;
}

/* True if a line of a table has a cell of prose, which means at least six words. Moves *line to the end of
 * the line. */
static bool line_has_prose(const char **line)
{
    const char *c = *line;
    bool quoted = false, prose = false;
    int spaces = 0;
    for (; *c && (quoted || *c != '\n'); c++) {
        quoted = quoted != (*c == '"');
        spaces = !quoted && (*c == ',' || *c == ';' || *c == '\t') ? 0 : spaces + (*c == ' ');
        prose = prose || spaces >= 5;
    }
    *line = c + (*c == '\n');
    return prose;
}

clt_status new_config_tell_prose(new_config *n)
{
    char start[65536];
    size_t got = 0;
    int lines = 0, with_prose = 0;
    CLT_TRY(clt_file_read_start(n->path, start, sizeof start - 1, CLT_EDATA, &got));
    start[got] = '\0';
    const char *line = start;
    (void)line_has_prose(&line); /* skips the line with the names of columns */
    for (; *line; lines++)
        with_prose += line_has_prose(&line);
    if (2 * with_prose > lines)
        clt_str_append(&n->found,
                       "most lines have a cell of prose, but in this config each different text is only one "
                       "word: to learn from the texts fine-tune a bert with data.type=annotated "
                       "(docs/data.md, \"Texts with classes, labels of words, answers\")\n");
    return CLT_OK;
}
