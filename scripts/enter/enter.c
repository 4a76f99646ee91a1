/*
 * The first program of a container, besides the engine's init: it waits until the container's network is complete, then becomes
 * the command that its arguments name. A command that connects to its database as soon as it starts would find nothing there
 * otherwise. It stands alone, without a C library, so that it runs in every image. `compile.sh` makes the files of
 * `server/assets/enter` from it.
 */

typedef unsigned long word;

#if defined(__x86_64__)
enum { sys_read = 0, sys_write = 1, sys_close = 3, sys_nanosleep = 35, sys_execve = 59, sys_exit = 231, sys_openat = 257 };

static long call(long number, word a, word b, word c, word d) {
  long result;
  register word fourth __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return result;
}

__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call enter\n");
#elif defined(__aarch64__)
enum { sys_openat = 56, sys_close = 57, sys_read = 63, sys_write = 64, sys_exit = 94, sys_nanosleep = 101, sys_execve = 221 };

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
enum { at_cwd = -100, not_found = -2, no_access = -13, no_folder = -20, longest = 4096 };

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

__attribute__((used, noreturn)) void enter(word *stack) {
  long count = (long)stack[0];
  char **arguments = (char **)(stack + 1);
  char **variables = arguments + count + 1;
  const long pause[2] = {0, wait_ns};
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
  call(sys_exit, error == not_found ? 127 : 126, 0, 0, 0);
  __builtin_unreachable();
}
