/* The least that any server of heartbeats does: it receives them and sends an answer, and knows nothing of groups.
 *
 * What it burns is the price of the kernel's receives and sends, which a broker pays too. As Ottla does with batched
 * connections (decision 0007), it gathers requests for a while and then answers them together.
 *
 * answerer GATHERED_MS   listens on a free port of 127.0.0.1, prints it, and goes on until it is killed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_MAX = 1024, REQUEST_MAX_BYTES = 4096, CORRELATION_AT = 8 };

/* HeartbeatResponse v4 with its size before it: correlation id, no tags, throttle time, error code, no tags. */
typedef struct {
    char bytes[16];
} Answer;

typedef struct {
    int fd;
    Answer answer;
} Pending;

static void check(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

static void watch(int poll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    check(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static int open_listener(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    check(listener, "socket");
    check(bind(listener, (struct sockaddr *)&address, size), "bind");
    check(listen(listener, 4096), "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &size), "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void accept_all(int poll, int listener) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watch(poll, fd);
    }
}

int main(int count, char **arguments) {
    static struct epoll_event events[EVENTS_MAX];
    static Pending pending[EVENTS_MAX];
    static char request[REQUEST_MAX_BYTES];
    if (count != 2) {
        fprintf(stderr, "usage: answerer GATHERED_MS\n");
        return 2;
    }
    useconds_t gathered_us = 1000 * (useconds_t)atoi(arguments[1]);
    int poll = epoll_create1(0), listener = open_listener();
    check(poll, "epoll_create1");
    watch(poll, listener);
    for (;;) {
        int asked = 0;
        epoll_wait(poll, events, 1, -1);
        usleep(gathered_us);
        int ready = epoll_wait(poll, events, EVENTS_MAX, 0);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                accept_all(poll, listener);
                continue;
            }
            if (recv(fd, request, sizeof request, 0) <= CORRELATION_AT + 4) {
                close(fd);
                continue;
            }
            Pending *next = &pending[asked++];
            *next = (Pending){.fd = fd, .answer.bytes = {[3] = sizeof next->answer - 4}};
            memcpy(next->answer.bytes + 4, request + CORRELATION_AT, 4);
        }
        for (int i = 0; i < asked; i++)
            send(pending[i].fd, &pending[i].answer, sizeof pending[i].answer, MSG_NOSIGNAL);
    }
}
