/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities of words whose labels have BIO names, such as B-PER, I-PER and O: which words form an entity, and
 * how many predicted entities are right. A predicted entity is right if the data have one with the same type,
 * first word and last word. It knows nothing of texts and models. */
#ifndef ENGINE_DATA_ANNOTATED_ENTITIES_H
#define ENGINE_DATA_ANNOTATED_ENTITIES_H

#include <stdbool.h>

#include "engine/base/mem.h"

typedef struct clt_entity_end {
    int32_t label; /* label of the latest word, or -1 */
    int64_t first; /* first word of the entity that contains the latest word */
} clt_entity_end;

typedef struct clt_entities {
    int64_t n_types;
    /* names of the types, in the order of the classes; "_" if names of classes have no types */
    char **type;
    int64_t *all, n_all;                /* all counts of the next line, so that ranks can sum them */
    int64_t *there, *predicted, *right; /* (n_types) entities in the data; predicted; predicted and right */
    /* private */
    int64_t n_labels, word; /* number of the next word */
    int32_t *type_of;       /* (n_labels) type of each label; -1: label O */
    char *mark;             /* (n_labels) B, I, E, S or O */
    clt_entity_end data, guess;
} clt_entities;

typedef struct clt_entity_figures {
    int64_t there, predicted, right;
    double precision, recall, f1; /* 0 if no entity is right, as in seqeval and conlleval */
} clt_entity_figures;

/* True if each name is O, or is B, I, E or S with or without "-" and a type, and not all names are O. */
bool clt_entities_named(const char *const *names, int64_t n);
/* clt_entities_named must be true for the names. */
clt_status clt_entities_create(const char *const *names, int64_t n, clt_entities **out);
void clt_entities_destroy(clt_entities *entities); /* NULL is fine */
CLT_SCOPED_POINTER(clt_entities, clt_entities_destroy)
void clt_entities_reset(clt_entities *entities);
/* Adds the next word of a sentence with its class in the data and its predicted class; -1: O. A word that is
 * not O begins an entity if it is B or S, or if the word before it is O, E, S or of another type. So IOB1,
 * IOB2 and IOBES can all be read. Source: the evaluation of CoNLL-2000 (Tjong Kim Sang and Buchholz,
 * W00-0726), which seqeval's default mode follows. */
void clt_entities_word(clt_entities *entities, int32_t label, int32_t guess);
void clt_entities_end(clt_entities *entities); /* ends the sentence */
/* The figures of a type, counted from 0; -1: the figures of all entities together (micro average). */
clt_entity_figures clt_entities_figures(const clt_entities *entities, int64_t type);

#endif
