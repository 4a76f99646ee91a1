/*
 * The program that becomes the command of an app. It stands alone, without a C library, so that it runs in every image and every
 * sandbox. `compile.sh` makes the files of `server/assets/enter` from it.
 *
 * With arguments it is the first program of a container, besides the engine's init: it waits until the container's network is
 * complete, then becomes the command that its arguments name. A command that connects to its database as soon as it starts would
 * find nothing there otherwise.
 *
 * Without arguments it starts a process of an app, and reads what to do from descriptor 3, so that no process list shows the
 * variables. It joins control groups before the command exists, gives up the server's user, and becomes the command. Its own
 * environment counts for nothing. Descriptor 3 provides texts that end with a zero byte: a count and as many files of control
 * groups, to which it writes its pid; the uid and the gid of the command, or two empty texts; a count and as many words of the
 * command, of which the first is its file; and the variables.
 */

typedef unsigned long word;

#if defined(__x86_64__)
enum { sys_read = 0, sys_write = 1, sys_close = 3, sys_brk = 12, sys_nanosleep = 35, sys_getpid = 39, sys_execve = 59 };
enum { sys_setuid = 105, sys_setgid = 106, sys_setgroups = 116, sys_exit = 231, sys_openat = 257 };

static long call(long number, word a, word b, word c, word d) {
  long result;
  register word fourth __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return result;
}

__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call enter\n");
#elif defined(__aarch64__)
enum { sys_openat = 56, sys_close = 57, sys_read = 63, sys_write = 64, sys_exit = 94, sys_nanosleep = 101, sys_setgid = 144 };
enum { sys_setuid = 146, sys_setgroups = 159, sys_getpid = 172, sys_brk = 214, sys_execve = 221 };

static long call(long number, word a, word b, word c, word d) {
  register word x8 __asm__("x8") = (word)number;
  register word x0 __asm__("x0") = a;
  register word x1 __asm__("x1") = b;
  register word x2 __asm__("x2") = c;
  register word x3 __asm__("x3") = d;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return (long)x0;
}

__asm__(".globl _start\n_start:\n mov x29, #0\n mov x0, sp\n bl enter\n");
#endif

/* The server sets it after the rules of the network are in place. */
static const char complete[] = "/proc/sys/net/ipv4/conf/all/route_localnet";
/* A server that is gone sets it when it is back; the command does not wait for that. */
enum { most_waits = 5000, wait_ns = 2000000 };
enum { at_cwd = -100, not_found = -2, too_long = -7, no_program = -8, no_access = -13, no_folder = -20, longest = 4096 };
enum { instructions = 3, write_only = 1, interrupted = -4, cannot_run = 126, no_command = 127 };

static int is_complete(void) {
  char value = '1';
  long file = call(sys_openat, at_cwd, (word)complete, 0, 0);
  if (file < 0) return 1;
  call(sys_read, file, (word)&value, 1, 0);
  call(sys_close, file, 0, 0, 0);
  return value != '0';
}

static int has_slash(const char *text) {
  for (; *text; text++) if (*text == '/') return 1;
  return 0;
}

static const char *path_of(char **variables) {
  for (; *variables; variables++) {
    const char *each = *variables;
    if (each[0] == 'P' && each[1] == 'A' && each[2] == 'T' && each[3] == 'H' && each[4] == '=') return each + 5;
  }
  return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/* Tries the folders one after the other. Returns the error. */
static long search(char **command, char **variables) {
  const char *path = path_of(variables);
  long error = not_found;
  while (1) {
    char file[longest];
    word length = 0;
    while (*path && *path != ':' && length < longest - 2) file[length++] = *path++;
    if (length > 0) file[length++] = '/';
    const char *name = *command;
    while (*name && length < longest - 1) file[length++] = *name++;
    file[length] = 0;
    long result = *name ? not_found : call(sys_execve, (word)file, (word)command, (word)variables, 0);
    if (result != not_found && result != no_folder) error = result;
    if (result != not_found && result != no_folder && result != no_access) return error;
    while (*path && *path != ':') path++;
    if (!*path) return error;
    path++;
  }
}

static void say(const char *text) {
  word length = 0;
  while (text[length]) length++;
  call(sys_write, 2, (word)text, length, 0);
}

__attribute__((noreturn)) static void leave(int status) {
  call(sys_exit, status, 0, 0, 0);
  __builtin_unreachable();
}

__attribute__((noreturn)) static void give_up(const char *subject, const char *problem) {
  say(subject);
  say(problem);
  leave(cannot_run);
}

/* More than Linux takes for the arguments and the variables of a program. Memory is taken as it is filled. */
enum { most_bytes = 8 << 20, most_texts = 1 << 20, alignment = 16 };

struct texts {
  /* Ends with a null pointer. */
  char **list;
  /* Negative when there is no descriptor. */
  long count;
};

static struct texts read_texts(void) {
  char **texts = (char **)(((word)call(sys_brk, 0, 0, 0, 0) + alignment - 1) / alignment * alignment);
  char *text = (char *)(texts + most_texts + 1);
  const word end = (word)(text + most_bytes);
  if ((word)call(sys_brk, end, 0, 0, 0) != end) give_up("", "Fairlead: there is no memory for the command\n");
  word length = 0;
  while (1) {
    long got = call(sys_read, instructions, (word)(text + length), most_bytes - length, 0);
    if (got == interrupted) continue;
    if (got < 0) return (struct texts){texts, got};
    if (got == 0) break;
    length += (word)got;
    if (length == most_bytes) give_up("", "Fairlead: the command is too long\n");
  }
  call(sys_close, instructions, 0, 0, 0);
  long count = 0;
  for (word at = 0; at < length && count < most_texts; count++) {
    texts[count] = text + at;
    while (at < length && text[at]) at++;
    at++;
  }
  texts[count] = 0;
  return (struct texts){texts, count};
}

static word number_of(const char *digits) {
  word number = 0;
  for (; *digits >= '0' && *digits <= '9'; digits++) number = number * 10 + (word)(*digits - '0');
  return number;
}

static void join(const char *group) {
  char digits[20];
  int at = sizeof digits;
  for (word pid = (word)call(sys_getpid, 0, 0, 0, 0); pid > 0; pid /= 10) digits[--at] = (char)('0' + pid % 10);
  long file = call(sys_openat, at_cwd, (word)group, write_only, 0);
  if (file < 0 || call(sys_write, file, (word)(digits + at), sizeof digits - (word)at, 0) < 0)
    give_up(group, ": the control group cannot be joined\n");
  call(sys_close, file, 0, 0, 0);
}

static const char *reason_of(long error) {
  if (error == not_found) return ": No such file or directory\n";
  if (error == no_access) return ": Permission denied\n";
  if (error == no_program) return ": Exec format error\n";
  if (error == too_long) return ": Argument list too long\n";
  return ": cannot be run\n";
}

/* Ends without a word when there are no instructions: the server has given the start up. */
__attribute__((noreturn)) static void become_process(struct texts texts) {
  char **next = texts.list, **end = next + texts.count;
  if (next == end) leave(cannot_run);
  for (word groups = number_of(*next++); groups > 0 && next < end; groups--) join(*next++);
  if (end - next < 4) leave(cannot_run);
  const char *uid = *next++, *gid = *next++;
  if (*uid) {
    long refused = call(sys_setgroups, 0, 0, 0, 0) | call(sys_setgid, number_of(gid), 0, 0, 0);
    if (refused | call(sys_setuid, number_of(uid), 0, 0, 0)) give_up("", "Fairlead: the user of the app cannot be taken\n");
  }
  word words = number_of(*next++);
  if (words == 0 || words > (word)(end - next)) leave(cannot_run);
  char **command = texts.list, **variables = next + words;
  /* Moved to the left, so that the words, too, end with a null pointer. */
  for (word at = 0; at < words; at++) command[at] = next[at];
  command[words] = 0;
  give_up(*command, reason_of(call(sys_execve, (word)*command, (word)command, (word)variables, 0)));
}

__attribute__((used, noreturn)) void enter(word *stack) {
  long count = (long)stack[0];
  char **arguments = (char **)(stack + 1);
  char **variables = arguments + count + 1;
  const long pause[2] = {0, wait_ns};
  if (count <= 1) {
    const struct texts texts = read_texts();
    /* A container has no descriptor 3. Its image has no command then. */
    if (texts.count >= 0) become_process(texts);
  }
  for (int waits = 0; waits < most_waits && !is_complete(); waits++) call(sys_nanosleep, (word)pause, 0, 0, 0);
  long error = not_found;
  if (count > 1) {
    char **command = arguments + 1;
    if (has_slash(*command)) error = call(sys_execve, (word)*command, (word)command, (word)variables, 0);
    else error = search(command, variables);
  }
  say(error == not_found ? "Fairlead: the image has no program of the name of its command: " : "Fairlead: this command of the image cannot be run, see the rights and the first line of its file: ");
  say(count > 1 ? arguments[1] : "");
  say("\n");
  leave(error == not_found ? no_command : cannot_run);
}
