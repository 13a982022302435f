/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals: SIGTERM, SIGINT, SIGUSR2 and SIGHUP ask a training run to finish its step and save; a second
 * SIGINT ends the process immediately. While a run starts, the first signal ends it immediately, because
 * nothing can be lost and a kernel that is being built cannot be waited for. One thread receives the signals
 * and all others block them: compilers in drivers (LLVM) temporarily install handlers of their own, which
 * would end the process if a second signal arrived at the wrong moment. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cli/screen/cmd.h"
#include "cli/screen/console.h"
#include "engine/base/thread.h"
#include "engine/host/last_words.h"

static const int taken[] = {SIGTERM, SIGINT, SIGUSR2, SIGHUP};
#define TAKEN (sizeof taken / sizeof taken[0])

/* The state decides what a signal does. ENDING: a signal came during the start, and the process will end. */
enum { RUNNING, STARTING, ENDING };

static atomic_int stop_requested;
static atomic_int interrupts;
static atomic_bool stops_gracefully, tells_end;
static atomic_int state; /* initially RUNNING */
static struct {
    cmd_stop_fn tell;
    void *context;
} listener;
static pthread_mutex_t listener_lock = PTHREAD_MUTEX_INITIALIZER;

const atomic_int *cmd_stop_flag(void)
{
    return &stop_requested;
}

void cmd_signals_starting(void)
{
    int running = RUNNING;
    if (atomic_load(&stop_requested) == 0)
        atomic_compare_exchange_strong(&state, &running, STARTING);
}

void cmd_signals_ready(void)
{
    int starting = STARTING;
    if (!atomic_compare_exchange_strong(&state, &starting, RUNNING) && starting == ENDING)
        for (;;) /* wait until the other thread ends the process */
            pause();
}

void cmd_signals_listen(cmd_stop_fn tell, void *context)
{
    pthread_mutex_lock(&listener_lock);
    listener.tell = tell;
    listener.context = context;
    pthread_mutex_unlock(&listener_lock);
}

/* Ends the process, and with it its child processes, if a run is starting; otherwise returns. */
static void end_start(void)
{
    static const char text[] =
        "cltrain: interrupted, resumable: stopped before the first step; nothing was lost\n";
    int starting = STARTING;
    if (!atomic_compare_exchange_strong(&state, &starting, ENDING))
        return;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        /* the exit code says the same, so an error here is ignored */
    }
    _exit(clt_status_exit_code(CLT_EINTERRUPTED));
}

/* False: writing would block, because nobody reads the pipe, or the terminal is stopped (Ctrl-S). */
static bool takes_text(int fd)
{
    struct pollfd out = {.fd = fd, .events = POLLOUT};
    return poll(&out, 1, 0) > 0;
}

/* Prints that the signal ends the command, which has nothing to save. */
static void tell_end(int number)
{
    static const char *const texts[] = {"cltrain: ended by SIGTERM\n", "cltrain: ended by SIGINT\n",
                                        "cltrain: ended by SIGUSR2\n", "cltrain: ended by SIGHUP\n"};
    for (size_t i = 0; i < TAKEN; i++)
        if (taken[i] == number && takes_text(STDERR_FILENO) &&
            write(STDERR_FILENO, texts[i], strlen(texts[i])) < 0) {
            /* the exit code says the same, so an error here is ignored */
        }
}

/* May run in a signal handler. True: it is the first signal, and the run continues to the end of the
 * step. */
static bool on_signal(int number)
{
    bool again = number == SIGINT && atomic_fetch_add(&interrupts, 1) > 0,
         stops = atomic_load(&stops_gracefully);
    end_start();
    if (!stops && atomic_load(&tells_end))
        tell_end(number);
    if (again || !stops)
        _exit(128 + number);
    return atomic_exchange(&stop_requested, number) == 0;
}

static void handle(int number)
{
    (void)on_signal(number);
}

/* Handles SIGABRT, SIGSEGV and SIGILL. If this process called abort(), most likely a driver did, and its
 * message on stderr does not say what to do: prints the last words (clt_last_words) and exits. In a crash it
 * prints them, too. Then, and without last words or if another process sent the signal, the process ends as
 * it does by default. */
static void on_fatal(int number, siginfo_t *info, void *context)
{
    static const char name[] = "cltrain: ", end[] = "\n";
    bool crashed = number != SIGABRT && info->si_code > 0; /* the kernel sent the signal */
    const char *words = crashed || info->si_pid == getpid() ? clt_last_words() : NULL;
    (void)context;
    if (words) {
        ssize_t written = write(STDERR_FILENO, name, sizeof name - 1);
        if (written >= 0 && write(STDERR_FILENO, words, strlen(words)) >= 0)
            written = write(STDERR_FILENO, end, sizeof end - 1);
        (void)written; /* the exit code says the same */
        if (!crashed)
            _exit(clt_status_exit_code(CLT_EDEVLOST));
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* True for SIGHUP if the program was started with it ignored, as nohup does; it then stays ignored. */
static bool is_ignored(int number)
{
    struct sigaction now;
    return number == SIGHUP && sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void install_handlers(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < TAKEN; i++)
        if (!is_ignored(taken[i]))
            sigaction(taken[i], &action, NULL);
}

static void *take_signals(void *context)
{
    const sigset_t *set = context;
    int number;
    for (;;) {
        if (sigwait(set, &number) != 0)
            continue;
        if (atomic_load(&state) == STARTING || (atomic_load(&tells_end) && takes_text(STDOUT_FILENO)))
            console_make_way();
        if (!atomic_load(&stops_gracefully))
            cmd_end_temporary();
        bool first = on_signal(number);
        pthread_mutex_lock(&listener_lock);
        if (first && listener.tell)
            listener.tell(listener.context, number);
        pthread_mutex_unlock(&listener_lock);
    }
    return NULL;
}

void cmd_signals_install(cmd_signals_kind kind)
{
    static sigset_t set;
    static clt_thread *thread;
    atomic_store(&stops_gracefully, kind == CMD_SIGNALS_STOP);
    atomic_store(&tells_end, kind == CMD_SIGNALS_END);
    sigemptyset(&set);
    for (size_t i = 0; i < TAKEN; i++)
        if (!is_ignored(taken[i]))
            sigaddset(&set, taken[i]);
    install_handlers();           /* the fallback if the thread cannot be created */
    if (kind == CMD_SIGNALS_STOP) /* a reader that closes the pipe ("| head") must not end a training run */
        (void)signal(SIGPIPE, SIG_IGN);
    /* at a file size limit writing fails (exit code 8) instead of killing the process */
    (void)signal(SIGXFSZ, SIG_IGN);
    if (kind == CMD_SIGNALS_CHILD) /* the parent process reports how this process ends */
        return;
    clt_last_words_handler(on_fatal);
    if (clt_thread_start(&thread, "signals", take_signals, &set) == CLT_OK)
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    else
        clt_error_clear();
}
