/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat templates: how the turns of a conversation become one text. A published model has its template as
 * a Jinja program, which is not run here. Here a template is a record of texts, and the template of a
 * published model is recognised by the SHA-256 of its program. This file knows no data files. */
#ifndef ENGINE_DATA_CHAT_CHAT_TEMPLATE_H
#define ENGINE_DATA_CHAT_CHAT_TEMPLATE_H

#include "engine/base/mem.h"
#include "engine/base/status.h"
#include "engine/config/config.h"

typedef enum clt_chat_role {
    CLT_CHAT_SYSTEM,
    CLT_CHAT_USER,
    CLT_CHAT_ASSISTANT,
    CLT_CHAT_ROLES,
    CLT_CHAT_TOOL = CLT_CHAT_ROLES /* a tool's answer, which only some templates have (chat_tools.c) */
} clt_chat_role;

/* The form in which a template writes tools and calls; 0: the template has none. */
typedef enum clt_chat_tools {
    CLT_CHAT_TOOLS_QWEN = 1,
    CLT_CHAT_TOOLS_LLAMA,
    CLT_CHAT_TOOLS_MISTRAL
} clt_chat_tools;

#define CLT_CHAT_HASHES 2
#define CLT_CHAT_MARKERS 4

typedef struct clt_chat_template {
    const char *name;
    bool begin;        /* the text begins with the tokenizer's bos_token */
    bool trim;         /* white space around the text of a turn is removed */
    bool trim_answers; /* the same for the assistant's turns only */
    bool alternate;    /* turns of user and assistant alternate, and the user begins */
    bool no_system;    /* there is no system turn */
    bool thinks;       /* answers after the user's last turn begin with a block <think>; others lose it */
    bool no_thought;   /* that block is empty and belongs to the question, not to the answer */
    clt_chat_tools tools;
    /* Text of the system turn that is added to a conversation without one; NULL: none is added */
    const char *system;
    /* Text before the system turn's text, with the date in place of %s; NULL: none */
    const char *dated;
    const char *date; /* date for `dated` if the config gives none; NULL: the config must give it */
    const char *open[CLT_CHAT_ROLES]; /* text before a turn of each role */
    const char *close[2];             /* texts after a turn of the system and of the user */
    /* The assistant's turn ends with the marker `end`, which is trained, then `after`, which is not trained.
     * `end` NULL: the tokenizer's end-of-text token */
    const char *end, *after;
    const char *markers[CLT_CHAT_MARKERS]; /* special tokens that the tokenizer must have; ends with NULL */
    const char *programs[CLT_CHAT_HASHES]; /* SHA-256 of published programs that write the same text */
} clt_chat_template;

/* The values of data.template, separated by |. */
#define CLT_CHAT_TEMPLATE_WORDS                                                                              \
    "auto|chatml|qwen2|qwen2.5|qwen3|qwen3-nothink|smollm2|llama3|llama3.1|llama3.2|mistral-v0.1|"           \
    "mistral-v0.2|mistral-v0.3|zephyr|plain"

/* The template with this name; NULL: there is none. */
const clt_chat_template *clt_chat_template_find(const char *name);
/* Appends the text before the system turn's text: chat->dated with `date` ("": the template's date). Appends
 * nothing if chat->dated is NULL. */
clt_status clt_chat_template_dated(const clt_chat_template *chat, const char *date, clt_str *out);
/* Appends a Jinja program that writes the same text, for transformers and other programs. `system`: text of
 * the system turn for conversations without one; "": the template's text. */
clt_status clt_chat_template_print(const clt_chat_template *chat, const char *system, const char *date,
                                   clt_str *out);
/* Finds the template of the model to which a tokenizer belongs: the program chat_template.jinja or the
 * member chat_template of tokenizer_config.json, in the folder `tokenizer` or, if it is a file, beside it.
 * If there is no program or it is unknown, *out is NULL and *why (in `arena`) says so. CLT_EDATA: the files
 * cannot be read. */
clt_status clt_chat_template_recognise(const char *tokenizer, clt_arena *arena, const clt_chat_template **out,
                                       const char **why);

#endif
