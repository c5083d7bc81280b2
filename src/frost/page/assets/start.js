"use strict";
/* This page computes by itself. */

const makeEngine = (facts, read) => localEngine(read("program"), decoded(byId("weights").textContent), facts.signals);

try {
  start();
  window.frostStarted = true;
} catch (error) {
  byId("trouble").textContent = `The page could not start: ${error.message}. It needs a browser from 2021 or later.`;
}
