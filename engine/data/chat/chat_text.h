/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample for fine-tuning, made from a record of JSON: its text in parts, each of which is trained or
 * not, and its tokens. It knows nothing of files, rows or models. */
#ifndef ENGINE_DATA_CHAT_CHAT_TEXT_H
#define ENGINE_DATA_CHAT_CHAT_TEXT_H

#include "engine/data/chat/chat_template.h"
#include "engine/data/tokenizer/tokenizer.h"

typedef struct clt_chat_part {
    size_t end;   /* offset of its end in the text; it begins where the previous part ends */
    int64_t id;   /* the part is this token and has no text; -1: it is text */
    bool marker;  /* text of the template: a special token's name in it becomes that token */
    bool apart;   /* it is encoded separately from the text before it */
    bool trained; /* its tokens are targets of the training */
} clt_chat_part;

/* Zero-initialise it; it may be filled repeatedly. */
typedef struct clt_chat_text {
    clt_str text;
    clt_chat_part *part;
    size_t count, capacity;
} clt_chat_text;
void clt_chat_text_free(clt_chat_text *text);
CLT_SCOPED_VALUE(clt_chat_text, clt_chat_text_free)

typedef enum clt_chat_trained {
    CLT_CHAT_COMPLETIONS, /* all turns of the assistant, or the completion */
    CLT_CHAT_LAST,        /* the last turn of the assistant */
    CLT_CHAT_ALL          /* everything except the token that begins a text */
} clt_chat_trained;

/* How records become texts. */
typedef struct clt_chat_rules {
    const clt_tokenizer *tokenizer;
    const clt_chat_template *chat; /* NULL: there is none, for the reason `why_none` */
    const char *why_none;
    const char *system; /* replaces the template's text of an added system turn; "": no change */
    const char *date;   /* replaces the template's date; "": no change */
    clt_chat_trained trained;
} clt_chat_rules;

/* Checks that each marker which the template needs is one special token of the tokenizer. CLT_EDATA names
 * the missing ones. */
clt_status clt_chat_rules_check(const clt_chat_rules *rules);

/* Fills `out` with the parts of a record, one JSON object:
 *   {"messages": [{"role": "system|user|assistant|tool", "content": TEXT}, ...], "tools": [...]};
 *     a message may have "weight" 0 or 1, or "train" true or false, "tool_calls", "tool_call_id",
 *     "reasoning_content"; its content may be a list of {"type": "text", "text": TEXT}
 *   {"conversations": [{"from": "system|human|gpt", "value": TEXT}, ...]}
 *   {"prompt": P, "completion": C}: two texts, or two lists of messages
 *   {"instruction": TEXT, "input": TEXT (may be missing), "output": TEXT}
 *   {"text": TEXT}
 *   {"input_ids": [...], "labels": [...]}: tokens; the label of a token that is not trained is -100
 * CLT_EDATA: the record has none of these forms, an unknown role, an empty answer, or nothing to train on. */
clt_status clt_chat_read(const clt_chat_rules *rules, const char *line, size_t size, clt_chat_text *out);

/* Fills `out` with the prompt of a generation: a conversation with one turn of the user, which ends where
 * the assistant's answer begins. */
clt_status clt_chat_question(const clt_chat_rules *rules, const char *text, clt_chat_text *out);

/* The token that ends an answer. */
clt_status clt_chat_end_token(const clt_chat_rules *rules, int64_t *id);

/* Tokens, and for each of them whether it is trained. Zero-initialise it. */
typedef struct clt_chat_tokens {
    clt_ids ids;
    uint8_t *trained;
    size_t capacity;
} clt_chat_tokens;
void clt_chat_tokens_free(clt_chat_tokens *tokens);
CLT_SCOPED_VALUE(clt_chat_tokens, clt_chat_tokens_free)
/* Appends the tokens of a text. A token that crosses the border between two parts belongs to the second one,
 * as in other trainers. */
clt_status clt_chat_encode(clt_encoder *encoder, const clt_chat_rules *rules, const clt_chat_text *text,
                           clt_chat_tokens *out);

#endif
