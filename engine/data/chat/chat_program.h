/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces of a template's Jinja program that concern tools (chat_program_tools.c). */
#ifndef ENGINE_DATA_CHAT_CHAT_PROGRAM_H
#define ENGINE_DATA_CHAT_CHAT_PROGRAM_H

#include "engine/data/chat/chat_template.h"

/* Appends a text as a Jinja string. */
void clt_program_string(clt_str *out, const char *text);

/* Appends what stands before the turns: told.text becomes the description of tools. */
void clt_program_tell(clt_str *out, clt_chat_tools kind);
/* Expressions for a turn of the system or the user: a text before the turn's own first words, and the
 * description of tools where this turn has it; NULL: nothing. Qwen's stands after the turn's text, others
 * before it. */
const char *clt_program_before(clt_chat_tools kind, clt_chat_role role);
const char *clt_program_told(clt_chat_tools kind, clt_chat_role role);
/* The calls of an answer. raw: arguments that are a text are written as they are. */
const char *clt_program_calls(clt_chat_tools kind, bool raw);
/* A turn of the role `tool`. */
const char *clt_program_answers(clt_chat_tools kind);

#endif
