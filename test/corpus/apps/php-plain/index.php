<?php require __DIR__ . '/greeting.php'; ?>
<!doctype html>
<title>PHP</title>
<h1><?= htmlspecialchars(greeting($_GET['name'] ?? 'PHP')) ?></h1>
<link rel="stylesheet" href="/style.css">
