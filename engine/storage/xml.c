/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds elements in the XML answers of object storage. Comments, CDATA and namespaces with prefixes do not
 * occur in these answers, and are not supported. */
#include "engine/storage/xml.h"

#include "engine/storage/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *find(const char *from, const char *end, const char *what)
{
    return from < end ? memmem(from, (size_t)(end - from), what, strlen(what)) : NULL;
}

/* Finds the tag "<name>" or "<name attributes>". *inside: the text after it; *empty: the tag is
 * "<name/>". */
static const char *find_tag(const char *from, const char *end, const char *name, const char **inside,
                            bool *empty)
{
    size_t length = strlen(name);
    for (const char *at = find(from, end, "<"); at; at = find(at + 1, end, "<")) {
        const char *after = at + 1 + length;
        if (after >= end || memcmp(at + 1, name, length) != 0 || !strchr("> \t\r\n/", *after))
            continue;
        const char *close = find(after, end, ">");
        if (!close)
            return NULL;
        *inside = close + 1;
        *empty = close[-1] == '/';
        return at;
    }
    return NULL;
}

bool clt_xml_find(clt_xml in, const char *name, clt_xml *out, clt_xml *rest)
{
    const char *end = in.text + in.size, *inside = NULL;
    char closing[64];
    bool empty = false;
    int length = snprintf(closing, sizeof closing, "</%s>", name);
    *out = (clt_xml){.text = "", .size = 0};
    if (!find_tag(in.text, end, name, &inside, &empty))
        return false;
    const char *close = empty ? inside : find(inside, end, closing), *after = close;
    if (!close)
        return false;
    if (!empty)
        after += length;
    *out = (clt_xml){.text = inside, .size = (size_t)(close - inside)};
    if (rest)
        *rest = (clt_xml){.text = after, .size = (size_t)(end - after)};
    return true;
}

static void append_character(clt_str *out, unsigned long code)
{
    char bytes[4];
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(first[n] | code);
    clt_str_append_n(out, bytes, n);
}

/* Appends the character that an entity stands for; `size` counts its bytes with & and ;. False: it is not a
 * known entity. */
static bool append_entity(clt_str *out, const char *entity, size_t size)
{
    static const struct {
        const char *name, *text;
    } known[] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == size && memcmp(known[i].name, entity, size) == 0) {
            clt_str_append(out, known[i].text);
            return true;
        }
    if (size < 4 || size > 11 || entity[1] != '#')
        return false;
    bool hexadecimal = entity[2] == 'x' || entity[2] == 'X';
    char *end = NULL;
    unsigned long code = strtoul(entity + (hexadecimal ? 3 : 2), &end, hexadecimal ? 16 : 10);
    if (end != entity + size - 1 || code == 0 || code > 0x10ffff)
        return false;
    append_character(out, code);
    return true;
}

void clt_xml_text(clt_xml element, clt_str *out)
{
    const char *at = element.text, *end = element.text + element.size;
    clt_str_append(out, "");
    while (at < end) {
        const char *mark = memchr(at, '&', (size_t)(end - at));
        const char *close = mark ? memchr(mark, ';', (size_t)(end - mark)) : NULL;
        size_t plain = (size_t)((mark ? mark : end) - at);
        clt_str_append_n(out, at, plain);
        at += plain;
        if (!mark)
            return;
        if (close && append_entity(out, mark, (size_t)(close - mark) + 1))
            at = close + 1;
        else
            clt_str_append_n(out, at++, 1);
    }
}

bool clt_xml_copy(clt_xml in, const char *name, char *buffer, size_t size)
{
    CLT_SCOPED(clt_secret) text = {0}; /* answers of STS hold keys */
    clt_xml element;
    bool there = clt_xml_find(in, name, &element, NULL);
    clt_secret_room(&text, element.size);
    clt_xml_text(element, &text);
    snprintf(buffer, size, "%s", text.text ? text.text : "");
    return there && !text.failed && text.length < size;
}
