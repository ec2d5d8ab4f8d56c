"""ConfigSpace: conversion of spaces and configurations."""
