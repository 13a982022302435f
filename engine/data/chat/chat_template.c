/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of templates, and functions that recognise the template of a published model. */
#include "engine/data/chat/chat_template.h"

#include <string.h>

#include "engine/data/texts/text_paths.h"
#include "engine/files/fileio.h"
#include "engine/files/sha256.h"
#include "engine/json/json.h"

#define CHATML                                                                                               \
    .open = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},                       \
    .close = {"<|im_end|>\n", "<|im_end|>\n"}, .end = "<|im_end|>", .after = "\n",                           \
    .markers = {"<|im_end|>", "<|im_start|>"}

#define LLAMA3                                                                                               \
    .begin = true, .trim = true,                                                                             \
    .open = {"<|start_header_id|>system<|end_header_id|>\n\n",                                               \
             "<|start_header_id|>user<|end_header_id|>\n\n",                                                 \
             "<|start_header_id|>assistant<|end_header_id|>\n\n"},                                           \
    .close = {"<|eot_id|>", "<|eot_id|>"}, .end = "<|eot_id|>", .after = "",                                 \
    .markers = {"<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"}

#define MISTRAL(before_answer, after_question)                                                               \
    .begin = true, .alternate = true, .no_system = true, .open = {"", "[INST] ", before_answer},             \
    .close = {"", after_question}

#define LLAMA3_DATED "Cutting Knowledge Date: December 2023\nToday Date: %s\n\n"

static const clt_chat_template templates[] = {
    {.name = "chatml",
     CHATML,
     .programs = {"153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3",
                  "64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326"}},
    {.name = "qwen2",
     CHATML,
     .system = "You are a helpful assistant.",
     .programs = {"793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb"}},
    {.name = "qwen2.5",
     CHATML,
     .system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .tools = CLT_CHAT_TOOLS_QWEN,
     .programs = {"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a"}},
    {.name = "qwen3",
     CHATML,
     .thinks = true,
     .tools = CLT_CHAT_TOOLS_QWEN,
     .programs = {"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8"}},
    {.name = "qwen3-nothink", CHATML, .thinks = true, .no_thought = true, .tools = CLT_CHAT_TOOLS_QWEN},
    {.name = "smollm2",
     CHATML,
     .system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     .programs = {"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"}},
    {.name = "llama3",
     LLAMA3,
     .programs = {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122"}},
    {.name = "llama3.1",
     LLAMA3,
     .system = "",
     .tools = CLT_CHAT_TOOLS_LLAMA,
     .dated = LLAMA3_DATED,
     .date = "26 Jul 2024",
     .programs = {"93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7"}},
    {.name = "llama3.2",
     LLAMA3,
     .system = "",
     .tools = CLT_CHAT_TOOLS_LLAMA,
     .dated = LLAMA3_DATED,
     .programs = {"d82792f95932f1c9cef5c4bd992f171225e3bf8c7b609b4557c9e1ec96be819f"}},
    {.name = "mistral-v0.1",
     MISTRAL("", " [/INST]"),
     .after = " ",
     .programs = {"7e995b379ec01747807246483647cd99030abf331653f1119e16d7ac041a3495"}},
    {.name = "mistral-v0.2",
     MISTRAL("", " [/INST]"),
     .after = "",
     .programs = {"26a59556925c987317ce5291811ba3b7f32ec4c647c400c6cc7e3a9993007ba7"}},
    {.name = "mistral-v0.3",
     MISTRAL(" ", "[/INST]"),
     .after = "",
     .trim_answers = true,
     .tools = CLT_CHAT_TOOLS_MISTRAL,
     .markers = {"[INST]", "[/INST]"}},
    {.name = "zephyr",
     .open = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .close = {NULL, NULL},
     .after = "\n",
     .programs = {"66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362"}},
    {.name = "plain",
     .open = {"### System:\n", "### User:\n", "### Assistant:\n"},
     .close = {"\n\n", "\n\n"},
     .after = ""},
};

#define N_TEMPLATES (sizeof templates / sizeof templates[0])

const clt_chat_template *clt_chat_template_find(const char *name)
{
    for (size_t i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

clt_status clt_chat_template_dated(const clt_chat_template *chat, const char *date, clt_str *out)
{
    const char *place = chat->dated ? strstr(chat->dated, "%s") : NULL;
    clt_str_append_n(out, chat->dated ? chat->dated : "", place ? (size_t)(place - chat->dated) : 0);
    if (place) {
        clt_str_append(out, *date || !chat->date ? date : chat->date);
        clt_str_append(out, place + 2);
    }
    return clt_str_check(out);
}

/* True if this is the program that this project's export writes for the template. */
static clt_status is_own_program(const clt_chat_template *chat, const char *text, bool *is)
{
    CLT_SCOPED(clt_str) own = {0};
    CLT_TRY(clt_chat_template_print(chat, "", "", &own));
    *is = strcmp(own.text, text) == 0;
    return CLT_OK;
}

/* Finds the template from its program; NULL: the program is unknown. A newline at its end is ignored,
 * because Jinja drops it. */
static clt_status find_program(char *text, const clt_chat_template **out)
{
    char hash[CLT_SHA256_TEXT];
    size_t size = strlen(text);
    if (size > 0 && text[size - 1] == '\n')
        text[--size] = '\0';
    clt_sha256_text(text, size, hash);
    for (size_t i = 0; i < N_TEMPLATES && !*out; i++) {
        bool found = false;
        CLT_TRY(is_own_program(&templates[i], text, &found));
        for (int k = 0; k < CLT_CHAT_HASHES && templates[i].programs[k]; k++)
            found = found || strcmp(templates[i].programs[k], hash) == 0;
        *out = found ? &templates[i] : NULL;
    }
    return CLT_OK;
}

/* The program in a tokenizer_config.json: a text, or a list whose entry "default" is taken; NULL: there is
 * none. */
static const char *program_of(const clt_json *root)
{
    const clt_json *value = clt_json_get(root, "chat_template");
    if (!value || clt_json_typeof(value) == CLT_JSON_STRING)
        return value ? clt_json_string(value) : NULL;
    for (const clt_json *one = clt_json_first(value); one; one = clt_json_next(one)) {
        const clt_json *name = clt_json_get(one, "name"), *text = clt_json_get(one, "template");
        if (name && text && strcmp(clt_json_string(name), "default") == 0)
            return clt_json_string(text);
    }
    return NULL;
}

#define MAX_PROGRAM ((size_t)1 << 20)

/* Reads the program; *text (to be freed) stays NULL if there is none. *path, in `arena`: the file that
 * contains it or should contain it. */
static clt_status read_program(const char *tokenizer, clt_arena *arena, char **text, const char **path)
{
    CLT_FREED char *file = NULL;
    CLT_FREED char *config = NULL;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    size_t size;
    CLT_TRY(clt_path_beside(tokenizer, "chat_template.jinja", &file));
    CLT_TRY(clt_path_beside(tokenizer, "tokenizer_config.json", &config));
    bool alone = clt_file_exists(file);
    *path = clt_arena_strdup(arena, alone ? file : config);
    if (!*path)
        return CLT_ENOMEM;
    if (alone)
        return clt_file_read(file, false, MAX_PROGRAM, CLT_EDATA, text, &size);
    if (!clt_file_exists(config))
        return CLT_OK;
    CLT_TRY(clt_json_parse_file(config, CLT_EDATA, &doc));
    const char *program = program_of(clt_json_root(doc));
    if (program && !(*text = strdup(program)))
        CLT_FAIL(CLT_ENOMEM, "reading '%s': out of host memory", config);
    return CLT_OK;
}

clt_status clt_chat_template_recognise(const char *tokenizer, clt_arena *arena, const clt_chat_template **out,
                                       const char **why)
{
    CLT_FREED char *text = NULL;
    const char *path = "";
    *out = NULL;
    if (!*tokenizer || strcmp(tokenizer, "bytes") == 0) {
        *why = "data.tokenizer names no published tokenizer";
        return CLT_OK;
    }
    CLT_TRY(clt_fail_prefix(read_program(tokenizer, arena, &text, &path), "looking for the chat template"));
    if (text)
        CLT_TRY(find_program(text, out));
    *why = clt_arena_printf(
        arena, text ? "the chat template of '%s' is not one of the known ones" : "'%s' has no chat template",
        path);
    return *why ? CLT_OK : CLT_ENOMEM;
}
