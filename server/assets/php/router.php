<?php
/*
 * Decides what PHP's own server answers: a file, a program, or the app's front controller. By itself that server gives away
 * files such as .env, and answers 404 for every path with a dot that is no file.
 */
$_SERVER['FAIRLEAD_ANSWER'] = (function (): string {
    $root = $_SERVER['DOCUMENT_ROOT'];
    $path = rawurldecode((string) parse_url('http://host' . $_SERVER['REQUEST_URI'], PHP_URL_PATH));
    $hidden = '#(^|/)\.(?!well-known(/|$))#';
    // A site at the top of the repository has the packages and the files of tools beside its own.
    $ofTools = '#^/+((vendor|node_modules)(/|$)|(composer\.(json|lock)|package(-lock)?\.json|Procfile|fairlead\.json)$)#i';
    $isTop = is_file("$root/composer.json") || is_file("$root/Procfile") || is_file("$root/fairlead.json");
    if (str_contains($path, "\0") || preg_match($hidden, $path) || ($isTop && preg_match($ofTools, $path))) {
        return 'nothing';
    }
    $file = $root . $path;
    if (is_file($file) || (is_dir($file) && (is_file("$file/index.php") || is_file("$file/index.html")))) {
        return 'file';
    }
    return is_file("$root/index.php") ? 'front controller' : 'nothing';
})();
if ($_SERVER['FAIRLEAD_ANSWER'] === 'file') {
    return false;
}
if ($_SERVER['FAIRLEAD_ANSWER'] === 'nothing') {
    http_response_code(404);
    echo 'Not found';
    return true;
}
unset($_SERVER['FAIRLEAD_ANSWER']);
$_SERVER['SCRIPT_NAME'] = '/index.php';
$_SERVER['PHP_SELF'] = '/index.php';
$_SERVER['SCRIPT_FILENAME'] = $_SERVER['DOCUMENT_ROOT'] . '/index.php';
chdir($_SERVER['DOCUMENT_ROOT']);
require $_SERVER['SCRIPT_FILENAME'];
