/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out which ranks see the checkpoints folder, sends pieces of the other ranks to rank 0, and collects
 * the results of all ranks. */
#include "engine/train/saved/saved_ranks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/files/process.h"

#define BLOCK ((uint64_t)1 << 22) /* elements of one broadcast */

/* A piece that a rank sends to rank 0. */
typedef struct clt_sent {
    int64_t rank, tensor; /* the sender's rank in the job; number of the tensor */
    int64_t member;       /* the sender's rank in the group `senders` */
    clt_store_piece in;
    int64_t piece; /* on rank 0: number of the piece in its part */
} clt_sent;

/* --- who sees the folder --- */

/* The message that rank 0 broadcasts: the path of the folder and the tag of this run. */
typedef struct said {
    char folder[PATH_MAX], tag[CLT_SAVED_TAG];
} said;

/* The path of the token: a file that rank 0 writes beside the folder and other ranks look for. */
static clt_status token_of(const said *s, clt_str *out)
{
    clt_str_printf(out, "%.*s/shared-%s", (int)(strrchr(s->folder, '/') - s->folder), s->folder, s->tag);
    return clt_str_check(out);
}

/* True if a file is a token; in tokens of older versions the process has no hash. */
static bool is_token(const char *name)
{
    char hash[17];
    long process;
    unsigned long long time;
    int length = 0;
    bool is = sscanf(name, "shared-%16[0-9a-f]-%ld-%llx%n", hash, &process, &time, &length) == 3 ||
              sscanf(name, "shared-%ld-%llx%n", &process, &time, &length) == 2;
    return is && name[length] == '\0';
}

/* Removes tokens that killed runs have left. A token that cannot be removed does no harm. */
static void remove_old_tokens(const char *parent)
{
    DIR *entries = opendir(parent);
    for (struct dirent *e = entries ? readdir(entries) : NULL; e; e = readdir(entries))
        if (is_token(e->d_name))
            (void)unlinkat(dirfd(entries), e->d_name, 0);
    if (entries)
        (void)closedir(entries);
}

static clt_status make_token(const char *folder, said *s, clt_str *token)
{
    const char *last = strrchr(folder, '/');
    CLT_SCOPED(clt_str) parent = {0};
    clt_str_printf(&parent, "%.*s/.", last ? (int)(last - folder) : 1, last ? folder : ".");
    CLT_TRY(clt_str_check(&parent));
    CLT_FREED char *whole = realpath(parent.text, NULL);
    if (!whole)
        CLT_FAIL(CLT_ESTORAGE, "the folder of '%s' cannot be found", folder);
    remove_old_tokens(whole);
    int length = snprintf(s->folder, sizeof s->folder, "%s/%s", whole, last ? last + 1 : folder);
    if (length < 0 || (size_t)length >= sizeof s->folder)
        CLT_FAIL(CLT_ESTORAGE, "the path of '%s' is too long", folder);
    CLT_TRY(token_of(s, token));
    return clt_own_file_write(token->text, s->tag, strlen(s->tag));
}

/* Fails unless this rank finds rank 0's token and can make another file beside it. */
static clt_status look_for_token(int rank, const said *s)
{
    CLT_SCOPED(clt_str) token = {0};
    CLT_FREED char *text = NULL;
    size_t length = 0;
    CLT_TRY(token_of(s, &token));
    CLT_TRY(clt_file_read(token.text, false, CLT_SAVED_TAG, CLT_ESTORAGE, &text, &length));
    if (length != strlen(s->tag) || memcmp(text, s->tag, length) != 0)
        CLT_FAIL(CLT_ESTORAGE, "another file has the name of rank 0's");
    clt_str_printf(&token, "-%d", rank);
    CLT_TRY(clt_str_check(&token));
    return clt_file_can_write(token.text);
}

static bool sees(const clt_run *run, const said *s)
{
    clt_status status = look_for_token(run->ranks.rank, s);
    if (status != CLT_OK)
        CLT_DEBUG("rank %d does not write checkpoints: %s", run->ranks.rank, clt_error_text());
    clt_error_clear();
    return status == CLT_OK;
}

/* Counts the ranks that see the folder, and gives each of them its number among the writers. Collective. */
static clt_status count_writers(clt_run *run, clt_saved_ranks *r, const said *s)
{
    CLT_FREED int64_t *see = NULL;
    int n = run->ranks.ranks, rank = run->ranks.rank;
    CLT_TRY(clt_alloc(&see, (size_t)n, sizeof *see, "ranks that write checkpoints"));
    see[rank] = rank == 0 || sees(run, s);
    CLT_TRY(comm_all_gather(run->options->comm, see, n, 1, COMM_I64));
    for (int i = 0; i < n; i++) {
        if (i == rank && see[i])
            r->writer = r->writers;
        r->writers += see[i] != 0;
    }
    return CLT_OK;
}

/* Tells all ranks where the folder is and finds out which of them see it. */
static clt_status find_folder(clt_run *run, const char *folder, clt_saved_ranks *r)
{
    said s = {.folder = ""};
    clt_str token = {0};
    clt_error error = {.status = CLT_OK};
    snprintf(s.tag, sizeof s.tag, "%s", r->tag);
    if (run->ranks.rank == 0)
        clt_error_take(make_token(folder, &s, &token), &error);
    clt_status status = clt_saved_tell(run, &error);
    if (status == CLT_OK)
        status = clt_error_put(&error);
    if (status == CLT_OK)
        status = comm_broadcast(run->options->comm, &s, sizeof s, 0);
    if (status == CLT_OK)
        status = count_writers(run, r, &s);
    snprintf(r->tag, sizeof r->tag, "%s", s.tag);
    if (run->ranks.rank != 0)
        snprintf(r->folder, sizeof r->folder, "%s", s.folder);
    else if (token.text)
        (void)unlink(token.text);
    clt_str_free(&token);
    return status;
}

clt_status clt_saved_ranks_open(clt_run *run, const char *folder, clt_saved_ranks *r)
{
    char mark[CLT_PROCESS_MARK];
    *r = (clt_saved_ranks){.writer = -1};
    snprintf(r->tag, sizeof r->tag, "%s-%llx", clt_process_mark(mark), (unsigned long long)(clt_now() * 1e9));
    if (run->ranks.rank == 0)
        snprintf(r->folder, sizeof r->folder, "%s", folder);
    if (run->ranks.ranks > 1)
        return find_folder(run, folder, r);
    r->writer = 0;
    r->writers = 1;
    return CLT_OK;
}

void clt_saved_ranks_close(clt_saved_ranks *r)
{
    comm_destroy(r->senders);
    free(r->sent);
    free(r->block);
    *r = (clt_saved_ranks){.writer = -1};
}

/* --- pieces of ranks that do not see the folder --- */

static clt_status add_sent(clt_saved_ranks *r, const clt_sent *sent)
{
    CLT_TRY(clt_grow(&r->sent, &r->capacity, r->n_sent + 1, sizeof *r->sent, "pieces of other hosts"));
    r->sent[r->n_sent++] = *sent;
    return CLT_OK;
}

/* Lists this rank's pieces of the tensors that are divided among ranks. */
static clt_status list_own(const clt_run *run, clt_saved_ranks *r, const clt_saved_part *p)
{
    clt_sent sent = {.rank = run->ranks.rank, .member = comm_describe(r->senders)->rank};
    for (int t = 0; t < p->n_tensors; t++) {
        sent.tensor = t;
        for (int64_t k = 0; clt_saved_part_own(run, p, t, k, &sent.in); k++)
            CLT_TRY(add_sent(r, &sent));
    }
    return CLT_OK;
}

/* Makes the same list on all members of the group: the pieces of member 1, of member 2 ... */
static clt_status list_sent(const clt_run *run, clt_saved_ranks *r, const clt_saved_part *p)
{
    const comm_info *group = comm_describe(r->senders);
    for (int member = 1; member < group->ranks; member++) {
        size_t before = r->n_sent;
        if (member == group->rank)
            CLT_TRY(list_own(run, r, p));
        int64_t count = (int64_t)(r->n_sent - before);
        CLT_TRY(comm_broadcast(r->senders, &count, sizeof count, member));
        for (const clt_sent none = {0}; r->n_sent < before + (size_t)count;)
            CLT_TRY(add_sent(r, &none));
        if (count)
            CLT_TRY(comm_broadcast(r->senders, r->sent + before, count * (int64_t)sizeof *r->sent, member));
    }
    return CLT_OK;
}

static bool divides(const clt_run *run, const clt_saved_part *p)
{
    bool any = false;
    for (int t = 0; t < p->n_tensors && !any; t++)
        any = clt_store_divides(run->store->layout, p->of[t].arena, p->of[t].slot);
    return any;
}

clt_status clt_saved_ranks_list(clt_run *run, clt_saved_ranks *r, clt_saved_part *p)
{
    if (r->writers == run->ranks.ranks || !divides(run, p))
        return CLT_OK;
    CLT_TRY(comm_split(run->options->comm, run->ranks.rank == 0 || r->writer < 0 ? 0 : -1, run->ranks.rank,
                       &r->senders));
    if (!r->senders)
        return CLT_OK;
    if (run->ranks.rank == 0)
        CLT_WARN(
            "%d of %d ranks do not see the folder '%s' or cannot write there: for each checkpoint they send "
            "their part of the optimizer state to rank 0, and training waits; a disk that all hosts share "
            "avoids that",
            run->ranks.ranks - r->writers, run->ranks.ranks, r->folder);
    CLT_TRY(list_sent(run, r, p));
    CLT_TRY(clt_alloc(&r->block, BLOCK, sizeof *r->block, "pieces of other hosts"));
    for (size_t i = 0; i < r->n_sent && run->ranks.rank == 0; i++) {
        r->sent[i].piece = (int64_t)p->n_pieces;
        CLT_TRY(clt_saved_part_add(run, p, (int)r->sent[i].tensor, (int)r->sent[i].rank, &r->sent[i].in));
    }
    return CLT_OK;
}

/* Compares a block with the device. An error is kept in send_error and reported at the end of the round,
 * because the other ranks still wait for the block. */
static void compare_block(clt_saved_ranks *r, const clt_saved_part *p, int tensor, uint64_t at, uint64_t n)
{
    clt_status status = clt_saved_part_compare_own(p, tensor, at, r->block, n);
    if (status != CLT_OK && r->send_error.status == CLT_OK)
        clt_error_take(status, &r->send_error);
    clt_error_clear();
}

/* Sends a piece by broadcasts to the whole group, because groups have no messages from rank to rank. */
static clt_status send_piece(clt_run *run, clt_saved_ranks *r, const clt_saved_part *p, const clt_sent *sent)
{
    const clt_saved_tensor *of = &p->of[sent->tensor];
    for (uint64_t at = 0; at < sent->in.count; at += BLOCK) {
        uint64_t n = sent->in.count - at < BLOCK ? sent->in.count - at : BLOCK, bytes = n * sizeof(float);
        float *here = run->ranks.rank == 0 ? p->sources[sent->piece].data + at : r->block;
        if (sent->rank == run->ranks.rank) {
            CLT_TRY(ocl_read(run->store->slab[of->arena][of->slot->slab], (sent->in.at + at) * sizeof(float),
                             here, bytes));
            compare_block(r, p, (int)sent->tensor, sent->in.at + at, n);
        }
        CLT_TRY(comm_broadcast(r->senders, here, (int64_t)bytes, (int)sent->member));
    }
    return CLT_OK;
}

clt_status clt_saved_ranks_send(clt_run *run, clt_saved_ranks *r, const clt_saved_part *p)
{
    r->send_error = (clt_error){.status = CLT_OK};
    if (r->n_sent && r->writer < 0)
        CLT_TRY(clt_saved_part_sum_now(run, p));
    for (size_t i = 0; i < r->n_sent; i++)
        CLT_TRY(send_piece(run, r, p, &r->sent[i]));
    return CLT_OK;
}

/* --- results --- */

typedef struct outcome {
    int64_t status, exceeds;
    clt_part part;
    char host[64], text[1024];
} outcome;

clt_status clt_saved_tell(const clt_run *run, clt_error *error)
{
    if (run->ranks.ranks == 1)
        return CLT_OK;
    error->file = NULL; /* points to a constant of another process */
    return comm_broadcast(run->options->comm, error, sizeof *error, 0);
}

clt_status clt_saved_collect(const clt_run *run, clt_error *error, clt_part *part, bool *exceeds)
{
    CLT_FREED outcome *all = NULL;
    int n = run->ranks.ranks, rank = run->ranks.rank;
    if (n == 1)
        return CLT_OK;
    CLT_TRY(clt_alloc(&all, (size_t)n, sizeof *all, "a checkpoint of several ranks"));
    all[rank] = (outcome){.status = error->status, .exceeds = *exceeds, .part = *part};
    snprintf(all[rank].host, sizeof all[rank].host, "%s", run->ranks.host);
    snprintf(all[rank].text, sizeof all[rank].text, "%.1000s", error->text);
    CLT_TRY(comm_all_gather(run->options->comm, all, n * (int64_t)sizeof *all, sizeof *all, COMM_U8));
    *part = (clt_part){0};
    *error = (clt_error){.status = CLT_OK};
    for (int i = 0; i < n; i++) {
        clt_part_add(part, &all[i].part);
        if (all[i].status != CLT_OK && error->status == CLT_OK) {
            error->status = (clt_status)all[i].status;
            snprintf(error->text, sizeof error->text, "rank %d on %s: %s", i, all[i].host, all[i].text);
        }
    }
    *exceeds = all[0].exceeds != 0;
    return CLT_OK;
}
