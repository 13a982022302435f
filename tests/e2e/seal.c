/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool for the test scripts: seal MEMBER <OLD >NEW corrects the hash of a sealed JSON file that a script
 * has edited. It fails if the file has no seal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/json/json_seal.h"

int main(int argc, char **argv)
{
    clt_str text = {0}, last = {0};
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, stdin)) > 0)
        clt_str_append_n(&text, block, n);
    clt_str_printf(&last, ",\n  \"%s\": \"", argc == 2 ? argv[1] : "");
    char *seal = NULL;
    for (char *at = text.text; at && (at = strstr(at, last.text)); at++)
        seal = at;
    if (argc != 2 || !seal)
        return EXIT_FAILURE;
    text.length = (size_t)(seal - text.text);
    *seal = '\0';
    if (clt_json_seal(&text, 0, argv[1]) != CLT_OK || fputs(text.text, stdout) == EOF)
        return EXIT_FAILURE;
    clt_str_free(&text);
    clt_str_free(&last);
    return EXIT_SUCCESS;
}
